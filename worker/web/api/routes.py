"""Parts that the routes of all resources share."""

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
    """The response of a route that sends a body only with an error.

    Through such a route, with ``BODILESS``, the schema of problems gets into the OpenAPI document.
    """

    media_type = MEDIA_TYPE


BODILESS = {"model": PerdureProblem}


class Rest(Convertor[str]):
    """A path parameter: the rest of a path, with any characters.

    Starlette's own ``path`` ends at a newline.
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
    """Return the error responses of a route, as OpenAPI describes them.

    They are the given ones and those that any route of the API can have. For the arguments see
    ``problem_responses``.
    """
    return problem_responses(*COMMON_PROBLEMS, *types, unknown_flow=unknown_flow, content=content)


def problem_responses(
    *types: str, unknown_flow: int = 404, content: dict[str, Any] = CONTENT
) -> dict[int | str, dict[str, Any]]:
    """Return the given error responses of a route, as OpenAPI describes them.

    Args:
        types: Last parts of the problems' types, such as ``run-not-found``.
        unknown_flow: Status of an unknown flow: 404 if the path names it, 422 if the body does.
        content: OpenAPI's description of the responses' bodies.
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
