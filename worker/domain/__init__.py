"""The model of a run, with all rules that need no I/O.

The package is pure: it imports neither clock, store nor Celery.
"""
