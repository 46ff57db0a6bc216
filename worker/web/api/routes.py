"""Shared parts of all routes: routers, parameters, and error responses for OpenAPI."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response
from starlette.convertors import Convertor, register_url_convertor

from perdure.worker.errors import HTTP_ERRORS
from perdure.worker.web.api.requests import PerdureProblem
from perdure.worker.web.auth.permissions import MAX_PAGE_SIZE
from perdure.worker.web.json_body import Json
from perdure.worker.web.problems import MEDIA_TYPE, REQUEST_PROBLEMS, ProblemRoute

MostItems = Annotated[
    int,
    Query(
        ge=1, le=MAX_PAGE_SIZE, description="Maximum number of items that are read of each kind."
    ),
]
RunId = Annotated[str, Path(description="The run's id.", examples=["nightly-2026-11-22"])]

#: Status and title of each problem, by the last word of its type.
TITLES = {code: (cls.http_status, cls.title) for code, cls in HTTP_ERRORS.items()} | {
    word: (status, title) for status, (word, title) in REQUEST_PROBLEMS.items()
}
#: Problems of any call.
COMMON_PROBLEMS = ("unknown-caller", "forbidden", "no-server")
#: Problems of a call with a body.
BODY_PROBLEMS = ("unreadable-body", "body-too-large", "no-json", "invalid-request")
#: Problems of a call that changes a run.
CHANGE_PROBLEMS = ("not-replicated", "server-full")
#: A reference to the schema of problems, which ``EmptyResponse`` adds to the OpenAPI document.
CONTENT: dict[str, Any] = {
    "content": {MEDIA_TYPE: {"schema": {"$ref": f"#/components/schemas/{PerdureProblem.__name__}"}}}
}
HEADERS = {
    401: {"WWW-Authenticate": {"description": "`Bearer`", "schema": {"type": "string"}}},
    503: {
        "Retry-After": {
            "description": "Seconds to wait before repeating the call.",
            "schema": {"type": "integer"},
        }
    },
}


class EmptyResponse(Response):
    """The response class of a route that sends a body only with an error.

    A route with this class and ``BODILESS`` adds the schema of problems to the OpenAPI document.
    """

    media_type = MEDIA_TYPE


BODILESS = {"model": PerdureProblem}


class Rest(Convertor[str]):
    """A path parameter that matches the rest of a path, with any characters.

    Starlette's own converter ``path`` matches only up to a newline.
    """

    regex = "(?s:.*)"

    def convert(self, value: str) -> str:
        """Return the rest of a requested URL path unchanged."""
        return value

    def to_string(self, value: str) -> str:
        """Return the rest of a URL path unchanged, to build a URL from it."""
        return value


register_url_convertor("rest", Rest())


def resource_router(tag: str) -> APIRouter:
    """Return an empty router for the HTTP routes of one resource, such as runs."""
    return APIRouter(route_class=ProblemRoute, tags=[tag], default_response_class=Json)


def problems(
    *types: str, unknown_flow: int = 404, content: dict[str, Any] = CONTENT
) -> dict[int | str, dict[str, Any]]:
    """Return all error responses of a route with a caller.

    To the given types, this adds those that any route with a caller can have (COMMON_PROBLEMS). For
    the arguments see ``problem_responses``.
    """
    return problem_responses(*COMMON_PROBLEMS, *types, unknown_flow=unknown_flow, content=content)


def problem_responses(
    *types: str, unknown_flow: int = 404, content: dict[str, Any] = CONTENT
) -> dict[int | str, dict[str, Any]]:
    """Return a route's error responses for OpenAPI.

    Args:
        types: Last parts of the problems' types, such as ``run-not-found``.
        unknown_flow: Status of the problem ``unknown-flow``: 404 if the path names the flow, 422 if
            the body does.
        content: OpenAPI's description of the responses' bodies.

    Returns:
        The responses by status. ``default`` stands for an unexpected error.
    """
    titles_by_status: dict[int, dict[str, str]] = {}
    for word in types:
        status, title = TITLES[word]
        titles_by_status.setdefault(unknown_flow if word == "unknown-flow" else status, {})[
            word
        ] = title
    responses: dict[int | str, dict[str, Any]] = {
        status: {
            "description": "; ".join(
                f"`urn:perdure:{word}`: {title}" for word, title in titles.items()
            ),
            **content,
            **({"headers": HEADERS[status]} if status in HEADERS else {}),
        }
        for status, titles in sorted(titles_by_status.items())
    }
    return {
        **responses,
        "default": {
            "description": "`urn:perdure:internal`: an unexpected error",
            **content,
        },
    }
