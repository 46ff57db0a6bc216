"""The HTTP API: a router for every noun, and the one that holds them all, to be mounted anywhere."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import APIRouter, Depends, Request

from worker.client import Client
from worker.web import events
from worker.web.access import Caller, Permitted
from worker.web.api import runs
from worker.web.hub import Hub

__all__ = ["api_router"]

ROUTERS = (runs.router, events.router)


def api_router(client: Client, caller: Callable[[Request], Caller], hub: Hub | None = None) -> APIRouter:
    """The API on the runs of ``client``, for an app of one's own: ``app.include_router(api_router(client, who), prefix="/holdfast")``.

    Args:
        caller: who makes this request; raises Unknown where that cannot be told. It is called in a thread.
        hub: one that others use as well; None for one of its own.
    """
    shared = hub or Hub(client)

    def bind(request: Request) -> None:
        request.state.permitted = Permitted(client, caller(request))
        request.state.hub = shared

    router = APIRouter(dependencies=[Depends(bind)])
    for each in ROUTERS:
        router.include_router(each)
    return router
