"""Mutants of the Lua files: one small fault a rule, and the test that must notice it. `python -m tests.mutants` runs them."""
