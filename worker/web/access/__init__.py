"""Who may do what: callers, their scopes, and the client as far as a caller may use it."""

from __future__ import annotations

from worker.web.access.caller import LOCAL, Caller, Forbidden, Scope, Unknown
from worker.web.access.permitted import Permitted

__all__ = ["LOCAL", "Caller", "Forbidden", "Permitted", "Scope", "Unknown"]
