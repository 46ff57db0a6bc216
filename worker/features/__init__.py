"""Features outside the protocol of rounds. Each feature has one folder, and is registered here.

The folder has all parts of the feature: its stored data, client methods, routes, commands, pages,
checks and metrics. Code outside of this package imports no feature. It calls the methods of
``Feature`` on each of ``features()``. Type checkers read classes, so ``clients.py`` and
``settings.py`` have a line for each feature that adds to a client or to the settings.

To remove a feature, delete its folder, its name below, its lines in ``clients.py`` and
``settings.py``, and its public names in ``perdure/__init__.py``. docs/internals/add-a-feature.md
describes how to add a feature.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perdure.worker.features.feature import Feature

NAMES: tuple[str, ...] = ("metric_history", "notes", "notifications")


@cache
def features() -> tuple[Feature, ...]:
    """Return all features, in the order of ``NAMES``."""
    return tuple(import_module(f"{__name__}.{name}").FEATURE for name in NAMES)


@cache
def offering(method: str) -> tuple[Feature, ...]:
    """Return the features that override a method of ``Feature``.

    The result is cached for the life of the process, because every round calls this.

    Args:
        method: The name of the method.
    """
    from perdure.worker.features.feature import Feature

    plain = getattr(Feature, method)
    return tuple(each for each in features() if getattr(type(each), method) is not plain)
