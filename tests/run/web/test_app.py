"""The app of the HTTP server: apps share their routes, and make the OpenAPI document on demand."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import fastapi.applications
import pytest
from fastapi import FastAPI, Request
from fastapi.routing import APIRoute
from pydantic import TypeAdapter
from starlette.testclient import TestClient

from perdure import Client, Settings
from perdure.worker.features import features
from perdure.worker.web import Caller, Scope, api_router, create_app, probe_router
from perdure.worker.web.auth.authenticate import Forbidden, Unknown, guard, prepare_page
from perdure.worker.web.json_body import most_bytes
from perdure.worker.web.services import authorize

NOWHERE = "redis://127.0.0.1:1/0"  # never asked
#: Routes without a caller: the probes, the hooks and the sign-in.
WITHOUT_CALLER = {
    "/api/v1/health", "/api/v1/ready", "/api/v1/hooks/{run}/{name}/{secret}",
    "/login", "/sign-in", "/logout",
}  # fmt: skip


def ann(request: Request) -> Caller:
    return Caller("ann", frozenset(Scope))


def nobody(request: Request) -> Caller:
    raise Unknown("not known here")


@pytest.fixture
def small() -> Iterator[Client]:
    """Yield a client whose requests may have only a fraction of the usual size."""
    settings = Settings(redis_url=NOWHERE, max_goal_bytes=1000, max_addition_bytes=1000)
    with closing(Client(settings=settings)) as client:
        yield client


@pytest.fixture
def large() -> Iterator[Client]:
    """Yield a client whose requests have the usual bound."""
    with closing(Client(settings=Settings(redis_url=NOWHERE))) as client:
        yield client


def dependencies(route: APIRoute) -> list[Callable[..., Any] | None]:
    return [each.dependency for each in route.dependencies]


def test_every_route_is_guarded_and_has_a_caller_unless_it_is_listed(small: Client) -> None:
    routes = [each for each in create_app(client=small).routes if isinstance(each, APIRoute)]
    of_features = [
        route
        for feature in features()
        for router in (*feature.routes(), *feature.pages())
        for route in router.routes
    ]
    # More than 100 with the features of today, and 90 without any.
    assert len(routes) - len(of_features) > 90
    for route in routes:
        pages = [] if route.include_in_schema or is_of_programs(route) else [prepare_page]
        callers = [] if route.path in WITHOUT_CALLER else [authorize]
        asked = [each for each in dependencies(route) if each in (guard, prepare_page, authorize)]
        assert asked == [guard, *pages, *callers], route.path


def is_of_programs(route: APIRoute) -> bool:
    return route.path.startswith(("/metrics", "/mcp", "/v1/"))


def test_a_route_that_is_added_to_the_app_is_guarded_and_described(small: Client) -> None:
    app = create_app(client=small)
    app.post("/more")(lambda: "more")
    browser = TestClient(app, "http://localhost")
    elsewhere = {"origin": "https://evil.example"}
    with pytest.raises(Forbidden, match="page of another site"):
        browser.post("/more", headers=elsewhere)
    assert "/more" in app.openapi()["paths"]
    assert "/more" not in create_app(client=small).openapi()["paths"]


def test_no_request_builds_routes(small: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    app = create_app(client=small, caller=ann)
    built: list[object] = []
    make = TypeAdapter.__init__

    def counted(self: Any, type: object, **options: Any) -> None:  # noqa: A002
        built.append(type)
        make(self, type, **options)

    monkeypatch.setattr(TypeAdapter, "__init__", counted)
    browser = TestClient(app, "http://localhost")
    assert browser.get("/api/v1/health").status_code == 200
    assert browser.post("/api/v1/runs", json={"flow": 1}).status_code == 422
    assert browser.get("/nowhere").status_code == 404
    assert built == []


def body_of(size: int) -> bytes:
    return b'{"flow": "' + b"x" * size + b'"}'


def status(browser: TestClient, path: str, body: bytes) -> int:
    headers = {"content-type": "application/json"}
    return browser.post(path, content=body, headers=headers).status_code


def test_apps_of_one_process_share_routes_but_neither_limits_nor_callers(
    small: Client, large: Client
) -> None:
    apps = [
        create_app(client=small, caller=ann),
        create_app(client=large, caller=ann),
        create_app(client=large, caller=nobody),
    ]
    assert apps[0].routes == apps[1].routes == apps[2].routes
    body = body_of(most_bytes(small.settings))
    asked = [TestClient(app, "http://localhost") for app in apps]
    assert [status(each, "/api/v1/stops", body) for each in asked] == [413, 422, 401]
    assert [status(each, "/api/v1/stops", b"{") for each in asked] == [400, 400, 401]


def test_apps_of_one_process_limit_forms_by_their_own_settings(
    small: Client, large: Client
) -> None:
    form = "theme=" + "x" * most_bytes(small.settings)
    headers = {"content-type": "application/x-www-form-urlencoded", "authorization": "Bearer x"}
    statuses = [
        TestClient(create_app(client=client, caller=ann), "http://localhost")
        .post("/theme", content=form, headers=headers, follow_redirects=False)
        .status_code
        for client in (small, large)
    ]
    assert statuses == [413, 503]  # The state server, which would sign a cookie, is nowhere.


def test_routers_in_one_app_of_a_user_have_their_own_limits_and_callers(
    small: Client, large: Client
) -> None:
    def bob(request: Request) -> Caller:
        return ann(request) if request.headers.get("x-user") == "bob" else nobody(request)

    app = FastAPI()
    app.include_router(api_router(small, ann), prefix="/small")
    app.include_router(api_router(large, bob), prefix="/large")
    app.include_router(probe_router(small), prefix="/probes")
    browser = TestClient(app)
    body = body_of(most_bytes(small.settings))
    assert [status(browser, f"/{name}/stops", body) for name in ("small", "large")] == [413, 401]
    browser.headers["x-user"] = "bob"
    assert status(browser, "/large/stops", body) == 422
    assert browser.get("/large/health").json() == browser.get("/probes/health").json()
    refused = browser.put("/large/runs")
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET, POST")


@pytest.fixture
def documents(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Return a list that gets, for each document that is made, whether garbage is collected."""
    collects: list[bool] = []
    make = fastapi.applications.get_openapi

    def recorded(**options: Any) -> dict[str, Any]:
        with pytest.raises(RuntimeError, match="no running event loop"):
            asyncio.get_running_loop()
        collects.append(gc.isenabled())
        return make(**options)

    monkeypatch.setattr(fastapi.applications, "get_openapi", recorded)
    return collects


def test_the_openapi_document_is_made_once_by_its_first_request_and_off_the_event_loop(
    small: Client, documents: list[bool]
) -> None:
    browser = TestClient(create_app(client=small), "http://localhost")
    assert documents == []
    with ThreadPoolExecutor(4) as threads:
        responses = list(threads.map(browser.get, ["/api/v1/openapi.json"] * 4))
    assert len(documents) == 1
    assert len({each.content for each in responses}) == 1


def test_no_garbage_is_collected_while_the_openapi_document_is_made(
    small: Client, documents: list[bool]
) -> None:
    create_app(client=small).openapi()
    assert documents == [False]
    assert gc.isenabled()


def test_the_openapi_document_names_the_path_under_which_a_proxy_serves_the_app(
    small: Client,
) -> None:
    app = create_app(client=small)
    browser = TestClient(app, "http://localhost", root_path="/perdure")
    document = browser.get("/api/v1/openapi.json").json()
    assert document["servers"] == [{"url": "/perdure"}]
    assert "servers" not in app.openapi()
