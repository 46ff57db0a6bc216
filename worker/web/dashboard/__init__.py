"""The dashboard: HTML pages that work without JavaScript. With it, they update themselves."""

from __future__ import annotations

from perdure.worker.web.dashboard import (
    actions,
    answer,
    chosen,
    compare,
    fleet,
    fork,
    notifications,
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
    notifications,
)
PAGES = tuple(each.router for each in _MODULES)
