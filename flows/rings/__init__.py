"""The shapes of flows: a ring of nodes, controller and executor, and branches."""
