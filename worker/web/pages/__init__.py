"""The dashboard: pages of HTML that need no JavaScript; with it they are live."""

from __future__ import annotations

from worker.web.pages import acting, answering, fleet, inbox, look, run, runs, start, stuck
from worker.web.pages.assets import Assets

__all__ = ["PAGES", "Assets"]

PAGES = tuple(each.router for each in (look, runs, acting, answering, run, inbox, start, fleet, stuck))
