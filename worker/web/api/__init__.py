"""The HTTP API: a router for every noun, and the one that holds them all, to be mounted anywhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy

from fastapi import APIRouter, Depends, Request
from fastapi.params import Depends as Dependency

from worker.client import Client
from worker.web.access import Caller, Permitted
from worker.web.api import artifacts, fleet, flows, inbox, many, runs, steering
from worker.web.api.events import event_router
from worker.web.api.nowhere import nowhere
from worker.web.api.probes import probe_router
from worker.web.bodies import most_bytes
from worker.web.hub import Hub
from worker.web.problems import ProblemRoute

__all__ = ["api_router", "probe_router"]

ROUTERS = (runs.router, steering.router, many.router, artifacts.router, inbox.router, flows.router, fleet.router)


def api_router(
    client: Client, caller: Callable[[Request], Caller], dependencies: Sequence[Dependency] = (), hub: Hub | None = None
) -> APIRouter:
    """The API on the runs of ``client``, for an app of one's own: ``app.include_router(api_router(client, who), prefix="/holdfast")``.

    Args:
        caller: who makes this request; raises Unknown where that cannot be told. It is called in a thread.
        dependencies: more of what every route but ``/health`` and ``/ready`` depends on: a security scheme for OpenAPI, say.
        hub: one that others use as well; None for one of its own.
    """
    # The routes are plain functions: each runs in one of the threads that Starlette keeps for them (40, unless the app says otherwise),
    # so a state server that does not answer holds up those, and never the event loop.
    probes = probe_router(client)
    nouns = (*ROUTERS, event_router(hub or Hub(client)))
    router = APIRouter()
    router.include_router(probes)
    router.include_router(bound(client, caller, *nouns), dependencies=dependencies)
    router.routes.append(nowhere([route for each in (*nouns, probes) for route in each.routes]))
    return router


def bound(client: Client, caller: Callable[[Request], Caller], *routers: APIRouter) -> APIRouter:
    """These routers, with the runs of ``client`` in the hands of whoever makes a request."""

    def bind(request: Request) -> None:
        # A route with a body has authenticated its caller before it read the body.
        known = getattr(request.state, "caller", None)
        request.state.permitted = Permitted(client, known or caller(request))

    router = APIRouter(dependencies=[Depends(bind)])
    for each in routers:
        router.include_router(_limited(each, most_bytes(client.settings), caller))
    return router


def _limited(router: APIRouter, most: int, caller: Callable[[Request], Caller]) -> APIRouter:
    """Return copies of its routes with this limit and caller: another client of this process may have others."""
    routes = [copy(route) for route in router.routes]
    for route in routes:
        if isinstance(route, ProblemRoute):
            route.most_bytes = most
            route.caller = caller
    return APIRouter(routes=routes)
