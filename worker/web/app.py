"""The ASGI app of the HTTP server: the API, the dashboard, and the metrics."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.security import HTTPBearer

from perdure.worker.client import Client
from perdure.worker.settings import Settings
from perdure.worker.tracing.propagation import TraceContextMiddleware
from perdure.worker.web.api import api_router, bound, fleet
from perdure.worker.web.auth import Caller
from perdure.worker.web.auth.authenticate import Authenticator
from perdure.worker.web.auth.security_headers import SecurityHeaders
from perdure.worker.web.dashboard import PAGES, Assets
from perdure.worker.web.dashboard.page import login_router, no_such_path
from perdure.worker.web.event_hub import EventHub
from perdure.worker.web.json_body import most_bytes
from perdure.worker.web.mcp_server import mcp_router
from perdure.worker.web.openai_api import openai_router

API = "/api/v1"
#: Security scheme for OpenAPI. The Authenticator itself reads the token.
TOKEN = HTTPBearer(
    auto_error=False, scheme_name="token", description="A token of `perdure token create`."
)
#: How often the server repeats a command that the state server did not answer. HTTP callers can
#: repeat their request, and each waiting request holds a thread. With 1, they get an error at once
#: if the state server is down. If it hangs, they get one after two time-outs (10 s).
RESENDS = 1


def create_app(
    settings: Settings | None = None,
    client: Client | None = None,
    caller: Callable[[Request], Caller] | None = None,
    open_on_loopback: bool = True,
) -> FastAPI:
    """Return Perdure's HTTP server as an ASGI app: API, dashboard and metrics.

    Args:
        settings: None for the settings of this process.
        client: An existing client, which is not closed with the app. Without it, the app makes its
            own.
        caller: Returns the caller of a request by other means than tokens, or raises Unknown. It is
            called in a thread.
        open_on_loopback: Whether requests over loopback need no token as long as no token exists.
    """
    owns_client = client is None
    runs = client or Client(settings=settings, resends=RESENDS)
    hub = EventHub(runs)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        await run_in_threadpool(hub.close)
        if owns_client:
            runs.close()

    authenticator = Authenticator(runs, caller, open_on_loopback)
    app = FastAPI(
        title="Perdure",
        lifespan=lifespan,
        openapi_url=f"{API}/openapi.json",
        docs_url=None,
        redoc_url=None,
        dependencies=[Depends(authenticator.guard)],
    )
    app.add_middleware(TraceContextMiddleware)
    # Added last, so it is the outermost middleware and covers all responses.
    app.add_middleware(SecurityHeaders)
    app.state.client, app.state.authenticator, app.state.hub = runs, authenticator, hub
    app.include_router(api_router(runs, authenticator.caller, [Depends(TOKEN)], hub), prefix=API)
    app.include_router(bound(runs, authenticator.caller, fleet.metrics_router))
    app.include_router(bound(runs, authenticator.caller, mcp_router(runs, hub), openai_router(hub)))
    # The body of a form is read before the caller is known, so its size is limited. The API has its
    # own limit, which it reports as problem details.
    pages = APIRouter(
        dependencies=[Depends(authenticator.prepare_page)], max_body_size=most_bytes(runs.settings)
    )
    pages.include_router(login_router(authenticator))
    pages.include_router(bound(runs, authenticator.caller, *PAGES))
    app.include_router(pages)
    app.add_exception_handler(404, no_such_path(authenticator))
    app.mount("/static", Assets(), name="static")
    # FastAPI builds included routes at their first use: 0.2 s of the first request, on the event
    # loop. On Python 3.11 that can also fail, with "AST constructor recursion depth mismatch", if
    # another thread parses Python meanwhile, for example Jinja for a second page.
    app.openapi()
    return app
