"""The dashboard: pages of HTML that need no JavaScript; with it they are live."""

from __future__ import annotations

from worker.web.pages import look, run, runs
from worker.web.pages.assets import Assets

__all__ = ["PAGES", "Assets"]

PAGES = (look.router, runs.router, run.router)
