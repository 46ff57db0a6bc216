"""The HTTP API: a router for every noun, and the one that holds them all, to be mounted anywhere."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import APIRouter, Depends, Request

from worker.client import Client
from worker.web.access import Caller, Permitted
from worker.web.api import runs
from worker.web.events import event_router
from worker.web.hub import Hub

__all__ = ["api_router"]

ROUTERS = (runs.router,)


def api_router(client: Client, caller: Callable[[Request], Caller], hub: Hub | None = None) -> APIRouter:
    """The API on the runs of ``client``, for an app of one's own: ``app.include_router(api_router(client, who), prefix="/holdfast")``.

    Args:
        caller: who makes this request; raises Unknown where that cannot be told. It is called in a thread.
        hub: one that others use as well; None for one of its own.
    """
    return bound(client, caller, *ROUTERS, event_router(hub or Hub(client)))


def bound(client: Client, caller: Callable[[Request], Caller], *routers: APIRouter) -> APIRouter:
    """These routers, with the runs of ``client`` in the hands of whoever makes a request."""

    def bind(request: Request) -> None:
        request.state.permitted = Permitted(client, caller(request))

    router = APIRouter(dependencies=[Depends(bind)])
    for each in routers:
        router.include_router(each)
    return router
