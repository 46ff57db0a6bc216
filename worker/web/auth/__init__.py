"""Authentication and permissions: callers, scopes, and a client with the rights of one caller."""

from __future__ import annotations

from perdure.worker.web.auth.authenticate import LOCAL, Caller, Forbidden, Scope, Unknown
from perdure.worker.web.auth.permissions import AuthorizedClient

__all__ = ["LOCAL", "AuthorizedClient", "Caller", "Forbidden", "Scope", "Unknown"]
