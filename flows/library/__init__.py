"""Flows that ship, one module each, imported when first asked for."""
