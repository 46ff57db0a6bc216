"""Problems: the errors that a control room tells as problem details (RFC 9457), as the exceptions that Client raises."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from flows.errors import HoldfastError, UnstorableValue
from worker.errors import (
    ArtifactNotFound,
    Conflict,
    DamagedRun,
    Forbidden,
    InvalidInput,
    InvalidSettings,
    InvalidTransition,
    RunExists,
    RunNotFound,
    Stale,
    UnknownCaller,
    UnknownFlow,
    UnsafeServer,
)
from worker.store import NotReplicated, ServerFull, StoreUnavailable

if TYPE_CHECKING:
    import httpx2

TYPE = "urn:holdfast:"
#: By the last word of the problem's type.
ERRORS: dict[str, type[HoldfastError]] = {
    "unknown-caller": UnknownCaller,
    "forbidden": Forbidden,
    "run-not-found": RunNotFound,
    "artifact-not-found": ArtifactNotFound,
    "unknown-flow": UnknownFlow,
    "run-exists": RunExists,
    "conflict": Conflict,
    "stale": Stale,
    "invalid-transition": InvalidTransition,
    "damaged-run": DamagedRun,
    "unstorable-value": UnstorableValue,
    "invalid-input": InvalidInput,
    "invalid-settings": InvalidSettings,
    "invalid-request": InvalidInput,
    "unreadable-body": InvalidInput,
    "body-too-large": InvalidInput,
    "no-json": InvalidInput,
    "not-replicated": NotReplicated,
    "no-server": StoreUnavailable,
    "server-full": ServerFull,
    "unsafe-server": UnsafeServer,
}
#: What stands between answers so for a server that is away.
AWAY = (502, 503, 504)


def raise_problem(answer: httpx2.Response, place: str) -> NoReturn:
    """Raise what went wrong. ``place`` is the server's address, for answers that are none of a control room."""
    told = _problem(answer)
    word = str(told.get("type", "")).removeprefix(TYPE)
    if word in ERRORS:
        raise ERRORS[word](str(told.get("detail")))
    if answer.status_code in AWAY:
        raise StoreUnavailable(f"the control room at {place} is away: what stands before it answered {answer.status_code}")
    if told.get("detail") and told.get("type", "").startswith(TYPE):
        raise HoldfastError(f"{told['detail']} (the control room at {place} answered {answer.status_code})")
    to = f" and sends on to {answer.headers['location']!r}" if "location" in answer.headers else ""
    raise HoldfastError(f"{place} answered {answer.status_code}{to}, as no control room does; is this its address?")


def _problem(answer: httpx2.Response) -> dict[str, Any]:
    if "json" not in answer.headers.get("content-type", ""):
        return {}
    try:
        told = answer.json()
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}
