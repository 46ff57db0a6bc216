"""Mutants of the Lua files: faults that operators plant, one at a time, and the tests that must
notice them.

``python -m tests.mutants`` runs them. docs/internals/mutants.md describes them.
"""
