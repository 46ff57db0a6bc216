"""The app: the API, the dashboard and what belongs to a server of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.security import HTTPBearer

from worker.client import Client
from worker.settings import Settings
from worker.telemetry.carried import CarriedOn
from worker.web import metrics
from worker.web.access import Caller
from worker.web.access.door import Door
from worker.web.access.headers import Headers
from worker.web.api import api_router, bound
from worker.web.bodies import most_bytes
from worker.web.hub import Hub
from worker.web.pages import PAGES, Assets
from worker.web.pages.login import login_router

API = "/api/v1"
#: How OpenAPI says who may: it is the caller's business to look at the token.
TOKEN = HTTPBearer(auto_error=False, scheme_name="token", description="A token of `holdfast token create`.")
#: How often the control room sends a command again that the state server did not answer. Its own callers are told so at once where the
#: server is away, and after two time-outs (ten seconds) where it hangs, and can come again; each that waits holds a thread.
RESENDS = 1


def create_app(
    settings: Settings | None = None,
    client: Client | None = None,
    caller: Callable[[Request], Caller] | None = None,
    open_on_loopback: bool = True,
) -> FastAPI:
    """The control room as an ASGI app.

    Args:
        settings: None for those of this process. client: one that is there already; it is not closed with the app.
        caller: who makes a request, where that is known otherwise than by tokens; raises Unknown. It is called in a thread.
        open_on_loopback: whether, as long as there are no tokens at all, requests that come in over loopback need none.
    """
    own = client is None
    runs = client or Client(settings=settings, resends=RESENDS)
    hub = Hub(runs)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        await run_in_threadpool(hub.close)
        if own:
            runs.close()

    door = Door(runs, caller, open_on_loopback)
    app = FastAPI(
        title="Holdfast",
        lifespan=lifespan,
        openapi_url=f"{API}/openapi.json",
        docs_url=None,
        redoc_url=None,
        dependencies=[Depends(door.guard)],
    )
    app.add_middleware(CarriedOn)
    app.add_middleware(Headers)  # the last to be added is the first to be asked: it is around everything
    app.state.client, app.state.door, app.state.hub = runs, door, hub
    app.include_router(api_router(runs, door.caller, [Depends(TOKEN)], hub), prefix=API)
    app.include_router(bound(runs, door.caller, metrics.router))
    # Forms are read before it is known whose they are. (The API has a limit of its own, and tells it as a problem.)
    pages = APIRouter(dependencies=[Depends(door.begin)], max_body_size=most_bytes(runs.settings))
    pages.include_router(login_router(door))
    pages.include_router(bound(runs, door.caller, *PAGES))
    app.include_router(pages)
    app.mount("/static", Assets(), name="static")
    return app
