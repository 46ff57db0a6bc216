"""The same order as a workflow of each system, for the part ``workflows``, and what plays them.

A module in ``examples`` is what a user of that system writes. ``benchmarks.workflows`` counts its
lines.
"""
