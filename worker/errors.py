"""The errors that clients meet. All are HoldfastErrors; each says which run, what was expected and what to do."""

from __future__ import annotations

from flows.errors import HoldfastError, InvalidInput


class RunNotFound(HoldfastError):
    """No run has this id (or it ended longer ago than the retention)."""


class ArtifactNotFound(HoldfastError):
    """The run keeps nothing under this name."""


class UnknownFlow(HoldfastError):
    """Neither this client nor any live worker knows a flow of this name."""


class RunExists(HoldfastError):
    """Another submission used this run id."""


class Conflict(HoldfastError):
    """The idempotency key was used for a submission with other content."""


class UnknownCaller(HoldfastError):
    """A control room does not know who is asking: there is no token, or not one that is good (any more)."""


class Forbidden(HoldfastError):
    """The caller is known, and may not do this."""


class InvalidTransition(HoldfastError):
    """The run's state does not allow this call."""


class Stale(HoldfastError):
    """Another answer, resume, retry or round came first; look at the run again."""


class DamagedRun(HoldfastError):
    """What the server holds of a run is not what was stored; nothing was written."""


class TokenNotFound(HoldfastError):
    """No token has this id (any more)."""


class DamagedToken(HoldfastError):
    """What the server holds of a token is not what was stored; it opens nothing."""


class UnsafeServer(HoldfastError):
    """The state server would lose runs that it acknowledged; nothing was stored. ``holdfast doctor`` says more."""


class InvalidSettings(HoldfastError):
    """A setting is unknown, malformed or not possible here."""


__all__ = [
    "ArtifactNotFound",
    "Conflict",
    "DamagedRun",
    "DamagedToken",
    "Forbidden",
    "HoldfastError",
    "InvalidInput",
    "InvalidSettings",
    "InvalidTransition",
    "RunExists",
    "RunNotFound",
    "Stale",
    "TokenNotFound",
    "UnknownCaller",
    "UnknownFlow",
]


def type_of(error: BaseException) -> str:
    """An exception's type by its name: with its module, unless it is Python's own."""
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
