"""Flows and their rounds: the context, waits, child runs, notes, and the registry."""
