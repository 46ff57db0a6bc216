"""The HTTP API: one router per resource, and the router that includes them all.

An app can mount it under any path. It also answers unknown paths, and the probes ``/health`` and
``/ready``, which need no token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import copy

from fastapi import APIRouter, Depends, Request, Response
from fastapi.params import Depends as Dependency
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute, Route

from perdure.worker.client import Client
from perdure.worker.web.api import conversation, files, fleet, notes, runs, threads
from perdure.worker.web.api.chats import chat_router
from perdure.worker.web.api.events import event_router
from perdure.worker.web.api.hooks import hook_router
from perdure.worker.web.api.responses import Ready, Up
from perdure.worker.web.api.routes import problem_responses, resource_router
from perdure.worker.web.auth import AuthorizedClient, Caller
from perdure.worker.web.event_hub import EventHub
from perdure.worker.web.json_body import MOST_ENCODED, Json, most_bytes
from perdure.worker.web.problems import REQUEST_PROBLEMS, ProblemRoute, details


def fallback_route(routes: Iterable[BaseRoute]) -> Route:
    """Return a route for all paths and methods that the HTTP API's ``routes`` do not have.

    It responds with problem details: 405 if the path exists with other methods, else 404.
    """
    api_routes = [route for route in routes if isinstance(route, APIRoute)]

    def respond(request: Request) -> Response:
        path = f"/{request.path_params['path']}"
        matching = [route for route in api_routes if route.path_regex.match(path)]
        # A path without parameters comes before one with them, as OpenAPI says.
        exact = [route for route in matching if route.path == path]
        methods = sorted({method for route in exact or matching for method in route.methods or ()})
        if methods:
            allowed = ", ".join(methods)
            detail = f"this path does not support {request.method}. Use {allowed}"
            return details(405, *REQUEST_PROBLEMS[405], detail, {"Allow": allowed})
        return details(
            404,
            *REQUEST_PROBLEMS[404],
            f"no API path {request.url.path}. The paths are listed in openapi.json",
        )

    return Route("/{path:rest}", respond, methods=[], include_in_schema=False)


def probe_router(client: Client) -> APIRouter:
    """Return the router of ``/health`` and ``/ready``, for an app of your own.

    Use it if the probes should have other paths than the API. They show nothing about runs.
    """
    probes = resource_router("probes")

    @probes.get("/health", operation_id="health", response_model=Up)
    async def health() -> Response:
        """Return 200 if the process is up.

        It asks no state server and needs no thread, so it answers however busy those are.
        """
        return Json({"status": "up"})

    @probes.get(
        "/ready",
        operation_id="ready",
        response_model=Ready,
        responses=problem_responses("no-server", "unsafe-server"),
    )
    def ready() -> Response:
        """Return 200 if the state server answers and keeps runs safely.

        The response has the number of live workers.
        """
        client._check_durability()
        return Json(
            {"status": "ready", "workers": sum(worker["alive"] for worker in client.workers())}
        )

    return probes


__all__ = ["api_router", "probe_router"]

#: Functions of the routes whose bodies may have files.
TAKE_FILES = frozenset({"submit_run", "create_response", "create_chat_completion"})

ROUTERS = (
    runs.router,
    files.router,
    runs.bulk_router,
    conversation.conversation_router,
    threads.threads_router,
    notes.notes_router,
    fleet.inbox_router,
    fleet.flows_router,
    fleet.router,
)


def api_router(
    client: Client,
    caller: Callable[[Request], Caller],
    dependencies: Sequence[Dependency] = (),
    hub: EventHub | None = None,
) -> APIRouter:
    """Return the API on the runs of ``client``, as a router for an app of your own.

    Mount it so: ``app.include_router(api_router(client, caller), prefix="/perdure")``.

    Args:
        caller: Returns the caller of a request, or raises Unknown. It is called in a thread.
        dependencies: More dependencies of every route except ``/health``, ``/ready`` and hooks,
            such as a security scheme for OpenAPI.
        hub: An event hub that other routers use too. With None, the router gets its own.
    """
    # The routes are plain functions. Each runs in one of Starlette's threads (40 by default), so a
    # state server that does not answer blocks those threads, but never the event loop.
    probes = probe_router(client)
    hub = hub or EventHub(client)
    resources = (*ROUTERS, event_router(hub), chat_router(hub))
    router = APIRouter()
    hooks = hook_router(client)
    router.include_router(probes)
    router.include_router(hooks)
    router.include_router(bound(client, caller, *resources), dependencies=dependencies)
    router.routes.append(
        fallback_route([route for each in (*resources, probes, hooks) for route in each.routes])
    )
    return router


def bound(client: Client, caller: Callable[[Request], Caller], *routers: APIRouter) -> APIRouter:
    """Return a router that includes the given routers and authenticates each request.

    A route then gets an AuthorizedClient, which does only what the request's caller may do.
    """

    def bind(request: Request) -> None:
        # A route with a body has authenticated its caller before it read the body.
        authenticated = getattr(request.state, "caller", None)
        request.state.authorized_client = AuthorizedClient(client, authenticated or caller(request))

    router = APIRouter(dependencies=[Depends(bind)])
    for each in routers:
        router.include_router(_limited(each, most_bytes(client.settings), caller))
    return router


def _limited(router: APIRouter, most: int, caller: Callable[[Request], Caller]) -> APIRouter:
    """Return a copy of a router whose routes refuse request bodies of more than ``most`` bytes.

    They also authenticate requests with ``caller``. The routes are copied because another client in
    this process may have another limit and caller.
    """
    routes = [copy(route) for route in router.routes]
    for route in routes:
        if isinstance(route, ProblemRoute):
            takes_files = route.name in TAKE_FILES
            route.most_bytes = most + (MOST_ENCODED if takes_files else 0)
            route.caller = caller
    return APIRouter(routes=routes)
