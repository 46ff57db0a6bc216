"""The app: the API, the dashboard and what belongs to a server of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from fastapi import Depends, FastAPI, Request
from fastapi.security import HTTPBearer

from worker.client import Client
from worker.settings import Settings
from worker.web import metrics
from worker.web.access import LOCAL, Caller
from worker.web.api import api_router, bound
from worker.web.pages import Assets, pages_router

API = "/api/v1"
#: How OpenAPI says who may: it is the caller's business to look at the token.
TOKEN = HTTPBearer(auto_error=False, scheme_name="token", description="A token of `holdfast token create`.")
#: How often the control room sends a command again that the state server did not answer. Its own callers are told so at once where the
#: server is away, and after two time-outs (ten seconds) where it hangs, and can come again; each that waits holds a thread.
RESENDS = 1


def create_app(
    settings: Settings | None = None, client: Client | None = None, caller: Callable[[Request], Caller] | None = None
) -> FastAPI:
    """The control room as an ASGI app.

    Args:
        settings: None for those of this process. client: one that is there already; it is not closed with the app.
        caller: who makes a request, where that is known otherwise than by tokens.
    """
    own = client is None
    runs = client or Client(settings=settings, resends=RESENDS)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        if own:
            runs.close()

    app = FastAPI(title="Holdfast", lifespan=lifespan, openapi_url=f"{API}/openapi.json", docs_url=None, redoc_url=None)
    app.state.client = runs
    who = caller or (lambda request: LOCAL)
    app.include_router(api_router(runs, who, [Depends(TOKEN)]), prefix=API)
    app.include_router(bound(runs, who, metrics.router))
    app.include_router(pages_router(runs, who))
    app.mount("/static", Assets(), name="static")
    return app
