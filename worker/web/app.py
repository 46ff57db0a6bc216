"""The app: the API, the dashboard and what belongs to a server of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request

from worker.client import Client
from worker.settings import Settings
from worker.telemetry.carried import CarriedOn
from worker.web import metrics
from worker.web.access import LOCAL, Caller
from worker.web.api import api_router, bound
from worker.web.pages import Assets, pages_router

API = "/api/v1"


def create_app(
    settings: Settings | None = None, client: Client | None = None, caller: Callable[[Request], Caller] | None = None
) -> FastAPI:
    """The control room as an ASGI app.

    Args:
        settings: None for those of this process. client: one that is there already; it is not closed with the app.
        caller: who makes a request, where that is known otherwise than by tokens.
    """
    own = client is None
    runs = client or Client(settings=settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        if own:
            runs.close()

    app = FastAPI(title="Holdfast", lifespan=lifespan, openapi_url=f"{API}/openapi.json", docs_url=None, redoc_url=None)
    app.add_middleware(CarriedOn)
    app.state.client = runs
    who = caller or (lambda request: LOCAL)
    app.include_router(api_router(runs, who), prefix=API)
    app.include_router(bound(runs, who, metrics.router))
    app.include_router(pages_router(runs, who))
    app.mount("/static", Assets(), name="static")
    return app
