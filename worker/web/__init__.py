"""The control room: runs over HTTP, for programs and for people. Needs the extra ``server``; nothing else of Holdfast imports it."""

from __future__ import annotations

from worker.web.access import Caller, Scope
from worker.web.api import api_router, probe_router
from worker.web.app import create_app

__all__ = ["Caller", "Scope", "api_router", "create_app", "probe_router"]
