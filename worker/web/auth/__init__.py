"""Authentication and permissions: callers, their scopes, and a client limited to one caller."""

from __future__ import annotations

from perdure.worker.web.auth.authenticate import LOCAL, Caller, Forbidden, Scope, Unknown
from perdure.worker.web.auth.permissions import AuthorizedClient

__all__ = ["LOCAL", "AuthorizedClient", "Caller", "Forbidden", "Scope", "Unknown"]
