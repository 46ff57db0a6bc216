"""Flows that ship with the project, one module each. A module is imported on first use."""
