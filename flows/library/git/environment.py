"""The environment of git commands and tests. It has most of the worker's variables."""

from __future__ import annotations

import os

#: Variables that locate git's programs and configuration. All other GIT_* variables refer to
#: another repository.
_GIT_KEPT = frozenset(
    {"GIT_EXEC_PATH", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM"}
)


def clean_environment(**more: str) -> dict[str, str]:
    """Return this process's environment without GIT_* and PERDURE_* variables, plus ``more``.

    GIT_* variables would redirect git (except those in ``_GIT_KEPT``, which stay). PERDURE_*
    variables may contain passwords.
    """
    environment = {
        name: value
        for name, value in os.environ.items()
        if name in _GIT_KEPT or not name.startswith(("GIT_", "PERDURE_"))
    }
    return {**environment, **more}
