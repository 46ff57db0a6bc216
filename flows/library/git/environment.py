"""The environment that git commands and tests get: the worker's, without what does not belong to them."""

from __future__ import annotations

import os

#: Where git finds its program parts and its configuration; every other GIT_* variable speaks of some other repository.
_GIT_KEPT = frozenset({"GIT_EXEC_PATH", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM"})


def clean_environment(**more: str) -> dict[str, str]:
    """The worker's environment without GIT_* (they would redirect git) and HOLDFAST_* (they may hold passwords), and ``more``."""
    kept = {name: value for name, value in os.environ.items() if name in _GIT_KEPT or not name.startswith(("GIT_", "HOLDFAST_"))}
    return {**kept, **more}
