"""Errors that clients can meet, all of them PerdureErrors.

Each message names the run, the expectation and the remedy.
"""

from __future__ import annotations

from typing import Any

from perdure.flows.core.errors import InvalidInput, PerdureError, UnstorableValue


class RunNotFound(PerdureError):
    """No run has this id. It may have ended longer ago than the retention time."""

    code = "run-not-found"
    title = "No such run"
    http_status = 404
    exit_code = 3


class ArtifactNotFound(PerdureError):
    """The run has no artifact with this name."""

    code = "artifact-not-found"
    title = "No such artifact"
    http_status = 404
    exit_code = 3


class ValueNotFound(PerdureError):
    """No round has returned a value of this name."""

    code = "value-not-found"
    title = "No such value"
    http_status = 404
    exit_code = 3


class NotificationNotFound(PerdureError):
    """No notification has this id: it was delivered, or never was."""

    code = "notification-not-found"
    title = "No such notification"
    http_status = 404
    exit_code = 3


class UnsupportedPart(InvalidInput):
    """A message has a part that a run cannot take. An example is a file's address."""

    code = "unsupported-part"
    title = "A part of the message cannot be taken"
    http_status = 422


class RunFailed(PerdureError):
    """A run whose answer was awaited ended without one: errored, stopped or unfinished.

    Args:
        message: why, and how to continue the run.
        run: the run (``perdure.Run``), as it was when it was read.
    """

    code = "run-failed"
    title = "The run has no answer"

    def __init__(self, message: str, run: Any = None) -> None:
        super().__init__(message)
        self.run = run


class UnknownFlow(PerdureError):
    """Neither this client nor a live worker knows the flow."""

    code = "unknown-flow"
    title = "No such flow"
    http_status = 404
    exit_code = 3


class RunExists(PerdureError):
    """Another submission already used this run id."""

    code = "run-exists"
    title = "The run id is already in use"
    http_status = 409
    exit_code = 8


class Conflict(PerdureError):
    """The idempotency key was used for different content."""

    code = "conflict"
    title = "The idempotency key was used for another request"
    http_status = 409
    exit_code = 8


class Taken(PerdureError):
    """Another live run holds the topic. Nothing was stored.

    Attributes:
        run_id: that run, if it is known.
    """

    code = "taken"
    title = "Another live run holds the topic"
    http_status = 409
    exit_code = 8

    def __init__(self, message: str = "", run_id: str = "") -> None:
        super().__init__(message)
        self.run_id = run_id


class MailboxFull(PerdureError):
    """The run's or topic's mailbox is full. This signal was not stored."""

    code = "mailbox-full"
    title = "The mailbox is full"
    http_status = 429
    exit_code = 8


class UnknownCaller(PerdureError):
    """The caller could not be authenticated: the token is missing, invalid or expired."""

    code = "unknown-caller"
    title = "Authentication required"
    http_status = 401
    exit_code = 8


class Forbidden(PerdureError):
    """The authenticated caller has no permission for this request."""

    code = "forbidden"
    title = "Permission denied"
    http_status = 403
    exit_code = 8


class InvalidTransition(PerdureError):
    """The run's state does not allow this call."""

    code = "invalid-transition"
    title = "Not possible in this state"
    http_status = 409
    exit_code = 8


class NotForkable(PerdureError):
    """A run cannot be forked there. Its flow has no forks, or its earlier rounds are not known."""

    code = "not-forkable"
    title = "The run cannot be forked there"
    http_status = 409
    exit_code = 8


class Stale(PerdureError):
    """Another answer, resume, retry or round came first. Read the run again before retrying."""

    code = "stale"
    title = "The run has changed"
    http_status = 409
    exit_code = 8


class DamagedRun(PerdureError):
    """A run's stored data differs from the written data. Nothing was changed."""

    code = "damaged-run"
    title = "The run is damaged"
    http_status = 409


class DamagedNote(PerdureError):
    """A stored note cannot be read. The others can."""

    code = "damaged-note"
    title = "A note is damaged"
    http_status = 409


class TokenNotFound(PerdureError):
    """No token has this id, or it was revoked."""

    code = "token-not-found"
    exit_code = 3


class DamagedToken(PerdureError):
    """A token's stored record cannot be read. The token grants no access."""

    code = "damaged-token"


class UnsafeServer(PerdureError):
    """The state server could lose acknowledged runs. Nothing was stored.

    ``perdure doctor`` explains what to change on the server.
    """

    code = "unsafe-server"
    title = "The state server is not safe for runs"
    http_status = 503
    exit_code = 8


class StoreUnavailable(PerdureError, ConnectionError):
    """The state server does not answer, or refuses.

    It may be full, read-only or loading. Try again later.
    """

    code = "no-server"
    title = "The state server does not answer"
    http_status = 503
    exit_code = 7


class ServerFull(StoreUnavailable):
    """The state server is at its maxmemory. Running work goes on, new work is refused."""

    code = "server-full"
    title = "The state server is full"
    http_status = 503


class AccessDenied(StoreUnavailable):
    """The state server refuses this user: a wrong login, or a command or key outside its ACL.

    docs/operations/security.md lists the permissions of each role.
    """

    code = "access-denied"
    # The server answers, so a retry would not help.
    exit_code = 8


class NotReplicated(PerdureError):
    """The operation was done, but not on enough replicas. A failover now could undo it.

    The message names the run.
    """

    code = "not-replicated"
    title = "Done, but not on enough replicas"
    http_status = 503
    exit_code = 7


class InvalidSettings(PerdureError):
    """A setting is unknown, malformed or not possible here."""

    code = "invalid-settings"
    title = "Invalid setting"
    http_status = 422
    exit_code = 2


__all__ = [
    "AccessDenied",
    "ArtifactNotFound",
    "Conflict",
    "DamagedNote",
    "DamagedRun",
    "DamagedToken",
    "Forbidden",
    "InvalidInput",
    "InvalidSettings",
    "InvalidTransition",
    "MailboxFull",
    "NotForkable",
    "NotReplicated",
    "NotificationNotFound",
    "PerdureError",
    "RunExists",
    "RunFailed",
    "RunNotFound",
    "ServerFull",
    "Stale",
    "StoreUnavailable",
    "Taken",
    "TokenNotFound",
    "UnknownCaller",
    "UnknownFlow",
    "UnsafeServer",
    "UnstorableValue",
    "UnsupportedPart",
    "ValueNotFound",
]


def http_class(cls: type[PerdureError]) -> type[PerdureError]:
    """Return the error class that HTTP reports for ``cls``.

    It is ``cls`` itself, or its nearest base class that has an HTTP status.
    """
    return next(each for each in cls.__mro__ if "http_status" in vars(each))


#: The errors that HTTP reports, by their codes. All others are internal errors to it.
HTTP_ERRORS: dict[str, type[PerdureError]] = {
    cls.code: cls
    for cls in (globals()[name] for name in __all__)
    if http_class(cls) is cls and cls is not PerdureError
}


def type_of(error: BaseException) -> str:
    """Return an exception's type name, with its module. A Python builtin has none."""
    kind = type(error)
    return (
        kind.__qualname__
        if kind.__module__ == "builtins"
        else f"{kind.__module__}.{kind.__qualname__}"
    )
