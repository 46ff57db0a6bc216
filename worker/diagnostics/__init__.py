"""Verdicts: why a run is in its state, for ``perdure why``."""
