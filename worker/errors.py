"""Errors that clients can meet, all of them PerdureErrors.

Each message names the run, the expectation and the remedy.
"""

from __future__ import annotations

from typing import Any

from perdure.flows.core.errors import InvalidInput, PerdureError, UnstorableValue


class RunNotFound(PerdureError):
    """Raised when no run has this id. It may have ended longer ago than the retention time."""

    code = "run-not-found"
    title = "No such run"
    http_status = 404
    exit_code = 3


class ArtifactNotFound(PerdureError):
    """Raised when a run has no artifact with this name."""

    code = "artifact-not-found"
    title = "No such artifact"
    http_status = 404
    exit_code = 3


class ValueNotFound(PerdureError):
    """Raised when no round of the run has returned a value of this name."""

    code = "value-not-found"
    title = "No such value"
    http_status = 404
    exit_code = 3


class NotificationNotFound(PerdureError):
    """Raised when no notification has this id. It was delivered, or never existed."""

    code = "notification-not-found"
    title = "No such notification"
    http_status = 404
    exit_code = 3


class UnsupportedPart(InvalidInput):
    """Raised when a message has a part that a run cannot take, such as a file's address."""

    code = "unsupported-part"
    title = "A part of the message cannot be taken"
    http_status = 422


class RunFailed(PerdureError):
    """Raised when a run ended without the awaited answer: errored, stopped or unfinished.

    Args:
        message: why there is no answer, and how to continue the run.
        run: the run (``perdure.Run``), as it was when it was read.
    """

    code = "run-failed"
    title = "The run has no answer"

    def __init__(self, message: str, run: Any = None) -> None:
        super().__init__(message)
        self.run = run


class UnknownFlow(PerdureError):
    """Raised when neither this client nor a live worker knows the flow."""

    code = "unknown-flow"
    title = "No such flow"
    http_status = 404
    exit_code = 3


class RunExists(PerdureError):
    """Raised when another submission already used this run id."""

    code = "run-exists"
    title = "The run id is already in use"
    http_status = 409
    exit_code = 8


class Conflict(PerdureError):
    """Raised when the idempotency key or nonce was used before, for different content.

    Attributes:
        run_id: the id of the run that the key or nonce belongs to. Empty if it is not known.
    """

    code = "conflict"
    title = "The idempotency key was used for another request"
    http_status = 409
    exit_code = 8

    def __init__(self, message: str = "", run_id: str = "") -> None:
        super().__init__(message)
        self.run_id = run_id


class Taken(PerdureError):
    """Raised when another live run holds the topic. Nothing was stored.

    Attributes:
        run_id: the id of that other run. Empty if it is not known.
    """

    code = "taken"
    title = "Another live run holds the topic"
    http_status = 409
    exit_code = 8

    def __init__(self, message: str = "", run_id: str = "") -> None:
        super().__init__(message)
        self.run_id = run_id


class MailboxFull(PerdureError):
    """Raised when the mailbox of a run or topic is full. The signal was not stored."""

    code = "mailbox-full"
    title = "The mailbox is full"
    http_status = 429
    exit_code = 8


class UnknownCaller(PerdureError):
    """Raised when the caller cannot be authenticated: the token is missing, invalid or expired."""

    code = "unknown-caller"
    title = "Authentication required"
    http_status = 401
    exit_code = 8


class Forbidden(PerdureError):
    """Raised when the authenticated caller has no permission for a request."""

    code = "forbidden"
    title = "Permission denied"
    http_status = 403
    exit_code = 8


class InvalidTransition(PerdureError):
    """Raised when the state of a run does not allow the call."""

    code = "invalid-transition"
    title = "Not possible in this state"
    http_status = 409
    exit_code = 8


class NotForkable(PerdureError):
    """Raised when a run cannot be forked before the given step.

    The run's flow has no forks, or the rounds before that step are not known.
    """

    code = "not-forkable"
    title = "The run cannot be forked there"
    http_status = 409
    exit_code = 8


class Stale(PerdureError):
    """Raised when another answer, resume, retry or round has changed the run first.

    Read the run again before you retry.
    """

    code = "stale"
    title = "The run has changed"
    http_status = 409
    exit_code = 8


class DamagedRun(PerdureError):
    """Raised when a run's stored data is not what Perdure wrote. Nothing was changed."""

    code = "damaged-run"
    title = "The run is damaged"
    http_status = 409


class DamagedNote(PerdureError):
    """Raised when a stored note cannot be read. Other notes can be read."""

    code = "damaged-note"
    title = "A note is damaged"
    http_status = 409


class TokenNotFound(PerdureError):
    """Raised when no access token has this id, or the token was revoked."""

    code = "token-not-found"
    exit_code = 3


class DamagedToken(PerdureError):
    """Raised when an access token's stored record cannot be read. It grants no access."""

    code = "damaged-token"


class UnsafeServer(PerdureError):
    """Raised when the state server could lose acknowledged runs. Nothing was stored.

    ``perdure doctor`` explains what to change on the server.
    """

    code = "unsafe-server"
    title = "The state server is not safe for runs"
    http_status = 503
    exit_code = 8


class StoreUnavailable(PerdureError, ConnectionError):
    """Raised when the state server does not answer, or refuses a command.

    The server may be full, read-only or loading. Try again later.
    """

    code = "no-server"
    title = "The state server does not answer"
    http_status = 503
    exit_code = 7


class ServerFull(StoreUnavailable):
    """Raised when the state server has used its maxmemory. It refuses new work only."""

    code = "server-full"
    title = "The state server is full"
    http_status = 503


class AccessDenied(StoreUnavailable):
    """Raised when the state server denies access: wrong credentials, or a missing permission.

    A permission is missing if the server's ACL does not allow the user this command or this key.

    docs/operations/security.md lists the permissions of each role.
    """

    code = "access-denied"
    # The server answers, so a retry would not help.
    exit_code = 8


class NotReplicated(PerdureError):
    """Raised when an operation was done, but not on enough replicas. A failover could undo it.

    The message names the run.
    """

    code = "not-replicated"
    title = "Done, but not on enough replicas"
    http_status = 503
    exit_code = 7


class InvalidSettings(PerdureError):
    """Raised when a setting is unknown, malformed or not possible here."""

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
    """Return the error class that the HTTP API reports for errors of class ``cls``.

    The result is the first class in the method resolution order of ``cls`` that defines an HTTP
    status.
    """
    return next(each for each in cls.__mro__ if "http_status" in vars(each))


#: The error classes that the HTTP API reports, by code. Others are reported as internal errors.
HTTP_ERRORS: dict[str, type[PerdureError]] = {
    cls.code: cls
    for cls in (globals()[name] for name in __all__)
    if http_class(cls) is cls and cls is not PerdureError
}


def type_of(error: BaseException) -> str:
    """Return the name of an exception's type.

    The name begins with the module, except for Python's builtin exceptions.
    """
    kind = type(error)
    return (
        kind.__qualname__
        if kind.__module__ == "builtins"
        else f"{kind.__module__}.{kind.__qualname__}"
    )
