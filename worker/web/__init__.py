"""The HTTP server: the API for programs and the dashboard for people.

It needs the extra ``server``. Only `perdure server` and the routes and pages of features import it.
"""

from __future__ import annotations

from perdure.worker.web.api import api_router, probe_router
from perdure.worker.web.app import create_app
from perdure.worker.web.auth import Caller, Scope

__all__ = ["Caller", "Scope", "api_router", "create_app", "probe_router"]
