"""Problems: errors as problem details (RFC 9457), on every route of the API, wherever the router is mounted."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute

from flows.errors import HoldfastError, InvalidInput, UnstorableValue
from worker.errors import (
    ArtifactNotFound,
    Conflict,
    DamagedRun,
    InvalidSettings,
    InvalidTransition,
    RunExists,
    RunNotFound,
    Stale,
    UnknownFlow,
)
from worker.store import NotReplicated, StoreUnavailable
from worker.web.access import Forbidden, Unknown

logger = logging.getLogger("holdfast.web")

MEDIA_TYPE = "application/problem+json"
#: The first that fits: its status, the word that its type ends with, its title.
KNOWN: tuple[tuple[type[Exception], int, str, str], ...] = (
    (Unknown, 401, "unknown-caller", "Who is asking?"),
    (Forbidden, 403, "forbidden", "Not allowed"),
    (RunNotFound, 404, "run-not-found", "No such run"),
    (ArtifactNotFound, 404, "artifact-not-found", "No such artifact"),
    (UnknownFlow, 404, "unknown-flow", "No such flow"),
    (RunExists, 409, "run-exists", "The run id is in use"),
    (Conflict, 409, "conflict", "The idempotency key is in use"),
    (Stale, 409, "stale", "Something else came first"),
    (InvalidTransition, 409, "invalid-transition", "Not possible in this state"),
    (DamagedRun, 409, "damaged-run", "The run is damaged"),
    (UnstorableValue, 422, "unstorable-value", "A value cannot be stored"),
    (InvalidInput, 422, "invalid-input", "Something is wrong with what was sent"),
    (InvalidSettings, 422, "invalid-settings", "A setting is not possible"),
    (NotReplicated, 503, "not-replicated", "Done, but not on enough replicas"),
    (StoreUnavailable, 503, "no-server", "The state server does not answer"),
)
#: Seconds until a call that met no state server is worth repeating: a restart takes about so long.
RETRY_AFTER = 2


class ProblemRoute(APIRoute):
    """A route whose errors are problem details."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler, with its errors told."""
        handle = super().get_route_handler()

        async def told(request: Request) -> Response:
            try:
                return await handle(request)
            except RequestValidationError as error:
                return invalid(error)
            except HoldfastError as error:
                return problem(error)

        return told


def problem(error: HoldfastError) -> Response:
    """The response that tells an error."""
    status, word, title = next((row[1:] for row in KNOWN if isinstance(error, row[0])), (500, "internal", "Something went wrong"))
    if status == 500:
        logger.error("an error without a place among the problems: %s", error, exc_info=error)
    headers = {"Retry-After": str(RETRY_AFTER)} if status == 503 else {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    return details(status, word, title, str(error), headers)


def invalid(error: RequestValidationError) -> Response:
    """The response to a request that is not of the form that the API describes."""
    faults = [{"at": ".".join(map(str, fault["loc"])), "problem": fault["msg"]} for fault in error.errors()]
    told = "; ".join(f"{fault['at']}: {fault['problem']}" for fault in faults)
    return details(422, "invalid-request", "The request is not as described", told, faults=faults)


def details(status: int, word: str, title: str, detail: str, headers: dict[str, str] | None = None, **more: Any) -> Response:
    """One problem. ``type`` is a name, no address: nothing needs to be looked up."""
    content = {"type": f"urn:holdfast:{word}", "title": title, "status": status, "detail": detail, **more}
    return JSONResponse(content, status, headers, MEDIA_TYPE)
