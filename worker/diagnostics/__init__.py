"""Why a run is in its state: the answer of ``perdure why``."""
