"""The dashboard: HTML pages that work without JavaScript, and update themselves with it."""

from __future__ import annotations

from perdure.worker.features import features
from perdure.worker.web.dashboard import (
    actions,
    answer,
    chosen,
    compare,
    fleet,
    fork,
    overview,
    page,
    rounds,
    run,
    runs,
    start,
)
from perdure.worker.web.dashboard.assets import Assets

__all__ = ["PAGES", "Assets"]

_MODULES = (
    page,
    overview,
    runs,
    chosen,
    actions,
    answer,
    run,
    rounds,
    compare,
    fork,
    start,
    fleet,
)
PAGES = (
    *(each.router for each in _MODULES),
    *(router for feature in features() for router in feature.pages()),
)
