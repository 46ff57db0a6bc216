"""The same order as each system's workflow.

Sessions and processes play it for the part ``workflows``. A module in ``examples`` is the code of a
user of that system. ``benchmarks.workflows`` counts its lines.
"""
