"""Errors in OpenAI's form, and the route that returns them."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response

from perdure.worker.web.json_body import Json
from perdure.worker.web.problems import MEDIA_TYPE, ProblemRoute

#: Types of errors by HTTP status. Other statuses below 500 have the type of an invalid request.
TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    429: "rate_limit_error",
}
#: Header that controls whether OpenAI's clients send a request again by themselves.
SHOULD_RETRY = "x-should-retry"
#: Header in which OpenAI's clients count how often they have sent a request again.
RETRY_COUNT = "x-stainless-retry-count"
KEY_HEADER = "idempotency-key"


def error_document(status: int, code: str, message: str, param: str | None = None) -> Any:
    """Return an error in the JSON form of OpenAI's API.

    Args:
        code: The error's code, for programs.
        param: The invalid field of the request's body. None: the fault is not in one field.
    """
    kind = "server_error" if status >= 500 else TYPES.get(status, "invalid_request_error")
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def error_response(
    status: int, code: str, message: str, param: str | None = None, **headers: str
) -> Response:
    """Return an error response that forbids OpenAI's clients to retry the request by themselves.

    A retried request could start a second run. ``code`` and ``param`` are as in
    ``error_document``.
    """
    return Json(
        error_document(status, code, message, param),
        status,
        {SHOULD_RETRY: "false", **headers},
    )


def refused_retry(request: Request) -> Response | None:
    """Return a 409 response to an unsafe automatic retry.

    Such a request is a retry without an idempotency key. The client has sent the request again by
    itself, and the first request may have started a run. With an idempotency key, the second
    request would find that run.

    Returns:
        None if the request is no automatic retry, or has an idempotency key.
    """
    if request.headers.get(RETRY_COUNT, "0") == "0" or KEY_HEADER in request.headers:
        return None
    return error_response(
        409,
        "retry-without-key",
        "the client sent this request again by itself, and the first one may have started a run. "
        "Pass extra_headers={'Idempotency-Key': ...}, with which a repeated request gets the same "
        "run, or look for the run first",
    )


class OpenAIRoute(ProblemRoute):
    """A route of OpenAI's API.

    It is like the routes of the HTTP API, but its errors have OpenAI's form.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the route's handler, which converts problem details into OpenAI's errors.

        Clients may retry after an error only if the request is a GET or has an idempotency key.
        """
        handle = super().get_route_handler()

        async def respond(request: Request) -> Response:
            response = await handle(request)
            if response.media_type != MEDIA_TYPE:
                return response
            problem = json.loads(bytes(response.body))
            faults = problem.get("faults") or [{}]
            answer = error_response(
                response.status_code,
                problem["type"].removeprefix("urn:perdure:"),
                problem["detail"],
                faults[0].get("at", "").removeprefix("body.") or None,
            )
            for name in ("Retry-After", "WWW-Authenticate", "Allow"):
                if name in response.headers:
                    answer.headers[name] = response.headers[name]
            if request.method == "GET" or KEY_HEADER in request.headers:
                del answer.headers[SHOULD_RETRY]
            return answer

        return respond
