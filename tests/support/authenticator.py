"""An authenticator that trusts a caller's own statement of name and scopes."""

from __future__ import annotations

from fastapi import Request

from perdure.worker.web.auth import Caller, Scope, Unknown


def by_name(request: Request) -> Caller:
    """Return the caller that the token names, with the scopes that it names: ``ann:read,stop``."""
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    name, _, scopes = token.partition(":")
    known = {scope.value for scope in Scope}
    if kind != "Bearer" or not name or not set(scopes.split(",")) <= known:
        raise Unknown("expected Authorization: Bearer NAME:SCOPES")
    return Caller(name, frozenset(map(Scope, scopes.split(","))))
