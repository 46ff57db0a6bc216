"""The dashboard: HTML pages that work without JavaScript. With it, they update themselves."""

from __future__ import annotations

from perdure.worker.web.dashboard import actions, answer, chosen, fleet, page, run, runs, start
from perdure.worker.web.dashboard.assets import Assets

__all__ = ["PAGES", "Assets"]

PAGES = tuple(each.router for each in (page, runs, chosen, actions, answer, run, start, fleet))
