"""Shared routes: they build the schema of a response when a document reads it, not before."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from fastapi import APIRouter, FastAPI, Response
from pydantic import TypeAdapter

from perdure.worker.web.shared_route import SharedRoute, routes_under


@dataclass
class Fact:
    """The response of the route."""

    text: str


def router_of_facts() -> APIRouter:
    router = APIRouter(route_class=SharedRoute)

    @router.get("/fact", response_model=Fact, responses={404: {"model": dict[str, int]}})
    def get_fact() -> Response:
        return Response()

    return router


def described(app: FastAPI, path: str) -> dict[str, str]:
    """Return the schemas of a path's responses, by status."""
    return {
        status: str(response["content"]["application/json"]["schema"].get("$ref", "object"))
        for status, response in app.openapi()["paths"][path]["get"]["responses"].items()
    }


FACT = {"200": "#/components/schemas/Fact", "404": "object"}


def test_no_schema_of_a_response_is_built_before_a_document_reads_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(TypeAdapter, "__init__", lambda *args, **options: pytest.fail("built"))
        app = FastAPI(routes=[*routes_under("/all", (), router_of_facts())])
    assert described(app, "/all/fact") == FACT


def test_an_app_that_includes_the_route_describes_its_responses() -> None:
    app = FastAPI()
    app.include_router(router_of_facts(), prefix="/mine")
    assert described(app, "/mine/fact") == FACT
