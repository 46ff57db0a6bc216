"""The HTTP API: one router per resource, and the router that includes them all.

An app can include this router under any path. The router also responds to unknown paths, and to
the probes ``/health`` and ``/ready``, which need no token.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fastapi import APIRouter, Depends, Request, Response
from fastapi.params import Depends as Dependency
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute, Route

from perdure.worker.client import Client
from perdure.worker.client.connection import session_of
from perdure.worker.features import features
from perdure.worker.web.api import bulk, conversation, files, fleet, runs, threads
from perdure.worker.web.api.chats import chat_router
from perdure.worker.web.api.derived import derived_routers
from perdure.worker.web.api.events import event_router
from perdure.worker.web.api.hooks import hook_router
from perdure.worker.web.api.responses import Ready, Up
from perdure.worker.web.api.routes import problem_responses, resource_router
from perdure.worker.web.auth import Caller
from perdure.worker.web.event_hub import EventHub
from perdure.worker.web.json_body import Json
from perdure.worker.web.problems import REQUEST_PROBLEMS, details
from perdure.worker.web.services import RouteServices, Services, authorize
from perdure.worker.web.shared_route import routes_under

__all__ = ["api_router", "api_routes", "probe_router"]

#: The probes have no caller.
probes = resource_router("probes")


@probes.get("/health", operation_id="health", response_model=Up)
async def health() -> Response:
    """Return 200 if the process is up.

    This needs neither the state server nor a free thread, so it works even if both are overloaded.
    """
    return Json({"status": "up"})


@probes.get(
    "/ready",
    operation_id="ready",
    response_model=Ready,
    responses=problem_responses("no-server", "unsafe-server"),
)
def ready(services: RouteServices) -> Response:
    """Return 200 if the state server answers and keeps runs safely.

    The response has the number of live workers.
    """
    client = services.client
    session_of(client).check_durability()
    return Json({"status": "ready", "workers": sum(worker["alive"] for worker in client.workers())})


#: Routers whose routes have no caller.
PUBLIC_ROUTERS = (probes, hook_router)
ROUTERS = (
    runs.router,
    files.router,
    bulk.bulk_router,
    conversation.conversation_router,
    threads.threads_router,
    fleet.inbox_router,
    fleet.flows_router,
    fleet.router,
    *derived_routers(),
    *(router for feature in features() for router in feature.routes()),
    event_router,
    chat_router,
)


def probe_router(client: Client) -> APIRouter:
    """Return the router of ``/health`` and ``/ready``, for an app of your own.

    Use this router if the probes should have other paths than the API. The probes need no token and
    show nothing about runs.
    """
    services = Services(client, EventHub(client))
    return APIRouter(routes=[*routes_under("", (), probes, services=services)])


def api_router(
    client: Client,
    caller: Callable[[Request], Caller],
    dependencies: Sequence[Dependency] = (),
    hub: EventHub | None = None,
) -> APIRouter:
    """Return the API on the runs of ``client``, as a router for an app of your own.

    Include it like this: ``app.include_router(api_router(client, caller), prefix="/perdure")``.

    Args:
        caller: A function that returns the caller of a request, or raises Unknown. It is called in
            a thread.
        dependencies: More dependencies of every route except ``/health``, ``/ready`` and hooks,
            such as a security scheme for OpenAPI.
        hub: An event hub that other routers use too. None: the router gets a hub of its own.
    """
    services = Services(client, hub or EventHub(client), caller)
    return APIRouter(routes=api_routes("", (), dependencies, services))


def api_routes(
    prefix: str,
    public_dependencies: Sequence[Dependency],
    dependencies: Sequence[Dependency],
    services: Services | None = None,
) -> list[BaseRoute]:
    """Return all routes of the API under the path ``prefix``.

    Args:
        public_dependencies: Dependencies of every route. The route for unknown paths has none.
        dependencies: More dependencies of the routes that have a caller.
        services: The services of the routes. None: those of the app that serves a request.
    """
    # The routes are plain functions. Each runs in one of Starlette's threads (40 by default), so a
    # state server that does not answer blocks those threads, but never the event loop.
    authorized = [*public_dependencies, *dependencies, Depends(authorize)]
    return [
        *routes_under(prefix, public_dependencies, *PUBLIC_ROUTERS, services=services),
        *routes_under(prefix, authorized, *ROUTERS, services=services),
        fallback_route(prefix, *ROUTERS, *PUBLIC_ROUTERS),
    ]


def fallback_route(prefix: str, *routers: APIRouter) -> Route:
    """Return a route for all requests under ``prefix`` that no route of ``routers`` matches.

    The response has problem details: 405 if the path exists with other methods, else 404.
    """
    resource_routes = [
        route for router in routers for route in router.routes if isinstance(route, APIRoute)
    ]

    def respond(request: Request) -> Response:
        path = f"/{request.path_params['path']}"
        matching = [route for route in resource_routes if route.path_regex.match(path)]
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

    return Route(f"{prefix}/{{path:rest}}", respond, methods=[], include_in_schema=False)
