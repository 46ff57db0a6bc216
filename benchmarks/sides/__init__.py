"""The sides of the comparison.

Each does the same work. The docstring of its module describes its settings.
"""
