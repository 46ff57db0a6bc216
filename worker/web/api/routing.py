"""Routing: what the routes of all nouns have in common."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Response
from starlette.convertors import Convertor, register_url_convertor

from worker.web.api.models.problem import HoldfastProblem
from worker.web.bodies import Json
from worker.web.problems import KNOWN, MEDIA_TYPE, OF_REQUESTS, ProblemRoute

RunId = Annotated[str, Path(description="The run's id.", examples=["nightly-2026-11-22"])]

#: Status and title by the word of a problem.
TITLES = {word: (status, title) for _, status, word, title in KNOWN} | {
    word: (status, title) for status, (word, title) in OF_REQUESTS.items()
}
#: What may be said of any call.
ALWAYS = ("unknown-caller", "forbidden", "no-server")
#: What may be said of a body.
OF_BODIES = ("unreadable-body", "body-too-large", "no-json", "invalid-request")
#: What may be said of a call that changes a run.
OF_CHANGES = ("not-replicated", "server-full")
#: By reference: ``Bodiless`` brings the schema itself.
CONTENT: dict[str, Any] = {"content": {MEDIA_TYPE: {"schema": {"$ref": f"#/components/schemas/{HoldfastProblem.__name__}"}}}}
HEADERS = {
    401: {"WWW-Authenticate": {"description": "`Bearer`", "schema": {"type": "string"}}},
    503: {"Retry-After": {"description": "Seconds after which the call is worth repeating.", "schema": {"type": "integer"}}},
}


class Bodiless(Response):
    """The response of a route whose only bodies are problems. With ``BODILESS`` it is by such a route that FastAPI knows their schema."""

    media_type = MEDIA_TYPE


BODILESS = {"model": HoldfastProblem}


class Rest(Convertor[str]):
    """The rest of a path, whatever it holds; Starlette's own ``path`` ends at a line's end."""

    regex = "(?s:.*)"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("rest", Rest())


def routed(tag: str) -> APIRouter:
    """A router for one noun."""
    return APIRouter(route_class=ProblemRoute, tags=[tag], default_response_class=Json)


def problems(*words: str, unknown_flow: int = 404, content: dict[str, Any] = CONTENT) -> dict[int | str, dict[str, Any]]:
    """What OpenAPI says of the problems that a caller may meet: these, beside those that any call may."""
    return problem_responses(*ALWAYS, *words, unknown_flow=unknown_flow, content=content)


def problem_responses(*words: str, unknown_flow: int = 404, content: dict[str, Any] = CONTENT) -> dict[int | str, dict[str, Any]]:
    """What OpenAPI says of these problems."""
    told: dict[int, dict[str, str]] = {}
    for word in words:
        status, title = TITLES[word]
        told.setdefault(unknown_flow if word == "unknown-flow" else status, {})[word] = title
    found: dict[int | str, dict[str, Any]] = {
        status: {
            "description": "; ".join(f"`urn:holdfast:{word}`: {title}" for word, title in titles.items()),
            **content,
            **({"headers": HEADERS[status]} if status in HEADERS else {}),
        }
        for status, titles in sorted(told.items())
    }
    return {**found, "default": {"description": "`urn:holdfast:internal`: an error that should not happen", **content}}
