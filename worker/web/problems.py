"""Problems: errors as problem details (RFC 9457), on every route of the API, wherever the router is mounted."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

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
    UnsafeServer,
)
from worker.settings import Settings
from worker.store import NotReplicated, ServerFull, StoreUnavailable
from worker.web.access import Caller, Forbidden, Unknown
from worker.web.bodies import Json, JsonRequest, most_bytes

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
    (UnsafeServer, 503, "unsafe-server", "The server is not safe for runs"),
    (NotReplicated, 503, "not-replicated", "Done, but not on enough replicas"),
    (ServerFull, 503, "server-full", "The server is full"),
    (StoreUnavailable, 503, "no-server", "The state server does not answer"),
)
#: The same for what is wrong with a request before anybody has asked for a run: by its status.
OF_REQUESTS = {
    400: ("unreadable-body", "The body cannot be read"),
    404: ("no-such-path", "No such path"),
    405: ("no-such-method", "Not possible here"),
    413: ("body-too-large", "The body is too large"),
    415: ("no-json", "The body is not JSON"),
    422: ("invalid-request", "The request is not as described"),
    500: ("internal", "Something went wrong"),
}
#: Seconds until a call that met no state server is worth repeating: a restart takes about so long.
RETRY_AFTER = 2


class ProblemRoute(APIRoute):
    """A route whose errors are problem details, and whose body is strict JSON of at most ``most_bytes``.

    Attributes:
        caller: authenticates a request, in a thread; None where the route needs no caller. Bodies are
            read after it, so that a stranger cannot make the server parse anything.
    """

    most_bytes = most_bytes(Settings())
    caller: Callable[[Request], Caller] | None = None

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler, with its errors told."""
        handle = super().get_route_handler()
        takes_body = self.body_field is not None

        async def told(request: Request) -> Response:
            run_id = request.path_params.get("run_id")
            about = {} if run_id is None else {"run": run_id}
            try:
                if takes_body:
                    if self.caller is not None:
                        request.state.caller = await run_in_threadpool(self.caller, request)
                    request = JsonRequest(request, self.most_bytes)
                    request.check()
                return await handle(request)
            except RequestValidationError as error:
                return invalid(error, **about)
            except HoldfastError as error:
                return problem(error, **about)
            except HTTPException as error:
                return refused(error)
            except Exception:  # ours to mend, and no reason to answer in another form
                logger.exception("%s %s failed", request.method, request.url.path)
                return details(500, *OF_REQUESTS[500], "an error that should not happen; the server's log has more", **about)

        return told


def problem(error: HoldfastError, **more: Any) -> Response:
    """The response that tells an error."""
    status, word, title = next((row[1:] for row in KNOWN if isinstance(error, row[0])), (500, *OF_REQUESTS[500]))
    if status == 500:
        logger.error("an error without a place among the problems: %s", error, exc_info=error)
    headers = {"Retry-After": str(RETRY_AFTER)} if status == 503 else {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    return details(status, word, title, str(error), headers, **more)


def unknown_flow(error: UnknownFlow) -> Response:
    """The same where the flow was named in a body: not what was asked for is missing, what was sent is wrong."""
    return details(422, "unknown-flow", "No such flow", str(error))


def invalid(error: RequestValidationError, **more: Any) -> Response:
    """The response to a request that is not of the form that the API describes."""
    faults = [{"at": ".".join(map(str, fault["loc"])), "problem": fault["msg"].removeprefix("Value error, ")} for fault in error.errors()]
    told = "; ".join(f"{fault['at']}: {fault['problem']}" for fault in faults)
    return details(422, *OF_REQUESTS[422], told, **more, faults=faults)


def refused(error: HTTPException) -> Response:
    """The response to a request that was refused before anything was done with it."""
    word, title = OF_REQUESTS.get(error.status_code, ("refused", "Refused"))
    return details(error.status_code, word, title, str(error.detail), dict(error.headers or {}))


def details(status: int, word: str, title: str, detail: str, headers: dict[str, str] | None = None, **more: Any) -> Response:
    """One problem. ``type`` is a name, no address: nothing needs to be looked up."""
    content = {"type": f"urn:holdfast:{word}", "title": title, "status": status, "detail": detail, **more}
    return Json(content, status, headers, MEDIA_TYPE)
