"""A flow and what its rounds have: the context, waits, child runs, notes, and the registry."""
