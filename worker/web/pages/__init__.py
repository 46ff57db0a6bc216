"""The dashboard: pages of HTML that need no JavaScript; with it they are live."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import APIRouter, Depends, Request

from worker.client import Client
from worker.web.access import Caller, Permitted
from worker.web.pages import look, run, runs
from worker.web.pages.assets import Assets
from worker.web.pages.page import back, page
from worker.web.pages.route import PageRoute

__all__ = ["Assets", "PageRoute", "back", "page", "pages_router"]

ROUTERS = (look.router, runs.router, run.router)


def pages_router(client: Client, caller: Callable[[Request], Caller]) -> APIRouter:
    """The pages on the runs of ``client``; ``caller`` as for the API's router."""

    def bind(request: Request) -> None:
        request.state.permitted = Permitted(client, caller(request))

    router = APIRouter(dependencies=[Depends(bind)], include_in_schema=False)
    for each in ROUTERS:
        router.include_router(each)
    return router
