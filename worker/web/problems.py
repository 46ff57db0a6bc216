"""Errors of the API as problem details (RFC 9457).

Every route of the API reports errors as problem details, under whatever path an app includes it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from perdure.flows.core.errors import PerdureError
from perdure.worker.errors import StoreUnavailable, Taken, UnknownFlow, http_class
from perdure.worker.store.refusals import shown_refusal
from perdure.worker.web.auth import Caller
from perdure.worker.web.json_body import MOST_ENCODED, Json, JsonRequest
from perdure.worker.web.services import authorize, services_of
from perdure.worker.web.shared_route import SharedRoute

logger = logging.getLogger("perdure.web")

MEDIA_TYPE = "application/problem+json"
#: Problems of requests that are refused before a run is read: type and title by HTTP status.
REQUEST_PROBLEMS = {
    400: ("unreadable-body", "The body is not valid JSON"),
    404: ("no-such-path", "No such path"),
    405: ("no-such-method", "Method not allowed"),
    413: ("body-too-large", "The body is too large"),
    415: ("no-json", "The body must be JSON"),
    422: ("invalid-request", "Invalid request"),
    500: (PerdureError.code, PerdureError.title),
}
#: Seconds after which to repeat a call if the state server does not answer: about the duration of a
#: restart.
RETRY_AFTER = 2
#: Functions of the routes whose bodies may have files.
TAKE_FILES = frozenset(
    {
        "submit_run",
        "send_message",
        "create_response",
        "create_chat_completion",
        "chat_with_ai_sdk",
        "chat_with_ag_ui",
    }
)


class ProblemRoute(SharedRoute):
    """A route with problem details and strict JSON.

    The route reports errors as problem details. If the route has a caller, it authenticates the
    caller before it reads the body. So an unauthenticated client cannot make the server parse a
    body.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the route's handler, which turns each exception into problem details.

        An unexpected exception is logged and becomes status 500.
        """
        handle = super().get_route_handler()
        takes_body = self.body_field is not None
        has_caller = any(each.dependency is authorize for each in self.dependencies)
        files_bytes = MOST_ENCODED if self.name in TAKE_FILES else 0

        async def respond(request: Request) -> Response:
            run_id = request.path_params.get("run_id")
            run_field = {} if run_id is None else {"run": run_id}
            try:
                if takes_body:
                    services = services_of(request)
                    if has_caller:
                        request.state.caller = await run_in_threadpool(services.caller, request)
                    request = JsonRequest(request, services.most_bytes + files_bytes)
                    request.check()
                return await handle(request)
            except RequestValidationError as error:
                return invalid(error, **run_field)
            except PerdureError as error:
                return problem(error, caller_of(request), **run_field)
            except HTTPException as error:
                return refused(error)
            # A bug in Perdure. The response has the same form as other errors.
            except Exception:
                secret = request.path_params.get("secret")  # of a hook
                path = request.url.path
                path = path if secret is None else path.replace(secret, "***")
                logger.exception("%s %s failed", request.method, path)
                return details(
                    500,
                    *REQUEST_PROBLEMS[500],
                    "unexpected error: see the server's log",
                    **run_field,
                )

        return respond


def shown_text(error: PerdureError, caller: Caller | None) -> str:
    """Return the text of an error for this caller.

    Only a StoreUnavailable has parts that not all callers may read: the state server's address and
    user. An admin gets its whole text. For other callers, the whole text is logged. They get the
    code of a Redis error reply with advice (for example, that the disk is full), or else a general
    text.

    Args:
        caller: None if the request has no caller, or if the error came before the caller was known.
    """
    if not isinstance(error, StoreUnavailable) or (caller is not None and caller.is_admin):
        return str(error)
    logger.warning("a request was refused: %s", error)
    refusal = shown_refusal(str(error))
    if refusal is not None:
        return refusal
    return f"{type(error).title}. Try again later. The log of this server says more"


def caller_of(request: Request) -> Caller | None:
    """Return a request's caller.

    None if the request is not authenticated.
    """
    client = getattr(request.state, "authorized_client", None)
    caller = getattr(request.state, "caller", None) if client is None else client.caller
    return caller if isinstance(caller, Caller) else None


def problem(error: PerdureError, caller: Caller | None, **more: Any) -> Response:
    """Return the response with problem details for an error.

    An error without an HTTP status of its own becomes status 500 and is logged.

    Args:
        caller: The caller who gets the response, for ``shown_text``.
        more: Further fields of the details.
    """
    cls = http_class(type(error))
    if cls is PerdureError:
        logger.error(
            "no HTTP status is defined for this error, so it was answered with 500: %s",
            error,
            exc_info=error,
        )
    headers = (
        {"Retry-After": str(RETRY_AFTER)}
        if cls.http_status == 503
        else {"WWW-Authenticate": "Bearer"}
        if cls.http_status == 401
        else {}
    )
    if isinstance(error, Taken) and error.run_id:
        more["holder"] = error.run_id
    return details(cls.http_status, cls.code, cls.title, shown_text(error, caller), headers, **more)


def unknown_flow(error: UnknownFlow) -> Response:
    """Return the response to an unknown flow in a body.

    The status is 422 instead of 404, because the path of the request exists.
    """
    return details(422, error.code, error.title, str(error))


def invalid(error: RequestValidationError, **more: Any) -> Response:
    """Return the 422 response to a request that does not match the API's schema.

    ``more`` are further fields of the problem details.
    """
    faults = [
        {
            "at": ".".join(map(str, fault["loc"])),
            "problem": fault["msg"].removeprefix("Value error, "),
        }
        for fault in error.errors()
    ]
    detail = "; ".join(f"{fault['at']}: {fault['problem']}" for fault in faults)
    return details(422, *REQUEST_PROBLEMS[422], detail, **more, faults=faults)


def refused(error: HTTPException) -> Response:
    """Return the response with problem details for an HTTPException.

    The request was rejected before it had an effect.
    """
    word, title = REQUEST_PROBLEMS.get(error.status_code, ("refused", "Refused"))
    return details(error.status_code, word, title, str(error.detail), dict(error.headers or {}))


def details(
    status: int,
    word: str,
    title: str,
    detail: str,
    headers: dict[str, str] | None = None,
    **more: Any,
) -> Response:
    """Return a response with problem details (RFC 9457).

    Args:
        word: The last part of the problem's type, ``urn:perdure:WORD``.
        title: The kind of error, for people.
        detail: The text about this error.
        headers: Headers of the response. None: no further headers.
        more: Further fields of the details.
    """
    content = {
        "type": f"urn:perdure:{word}",
        "title": title,
        "status": status,
        "detail": detail,
        **more,
    }
    return Json(content, status, headers, MEDIA_TYPE)
