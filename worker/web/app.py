"""The ASGI app of the HTTP server: the API, the dashboard, and the metrics."""

from __future__ import annotations

import gc
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import cache
from typing import Any

from fastapi import Depends, FastAPI, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse
from fastapi.security import HTTPBearer
from starlette.routing import BaseRoute, Mount, Route

from perdure.worker.client import Client
from perdure.worker.settings import Settings
from perdure.worker.tracing.propagation import TraceContextMiddleware
from perdure.worker.web.api import api_routes
from perdure.worker.web.api.fleet import metrics_router
from perdure.worker.web.auth import Caller
from perdure.worker.web.auth.authenticate import Authenticator, guard, prepare_page
from perdure.worker.web.auth.security_headers import SecurityHeaders
from perdure.worker.web.dashboard import PAGES, Assets
from perdure.worker.web.dashboard.page import login_router, no_such_path
from perdure.worker.web.event_hub import EventHub
from perdure.worker.web.mcp_server import mcp_router
from perdure.worker.web.openai_api import openai_router
from perdure.worker.web.services import Services, authorize
from perdure.worker.web.shared_route import routes_under

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
        settings: The settings of the app's client. None: the settings of this process. Ignored if
            ``client`` is given.
        client: An existing client. The app does not close it. None: the app makes a client, and
            closes it at shutdown.
        caller: A function that returns the caller of a request by other means than tokens, or
            raises Unknown. It is called in a thread. None: the token, the session cookie or
            loopback identifies the caller.
        open_on_loopback: Whether requests over loopback need no token as long as no token exists.
            Ignored if ``caller`` is given.
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
    app = WebApp(
        title="Perdure",
        lifespan=lifespan,
        # FastAPI's own route would make the document on the event loop.
        openapi_url=None,
        # Of routes that users add to the app. The shared routes have it already.
        dependencies=[Depends(guard)],
    )
    app.add_middleware(TraceContextMiddleware)
    # Added last, so it is the outermost middleware and covers all responses.
    app.add_middleware(SecurityHeaders)
    app.state.services = Services(runs, hub, authenticator.caller)
    app.state.authenticator = authenticator
    app.add_exception_handler(404, no_such_path)  # type: ignore[arg-type]
    app.router.routes.extend(shared_routes())
    return app


@cache
def shared_routes() -> tuple[BaseRoute, ...]:
    """Return the routes shared by all apps of this process.

    The result is cached for the life of the process. An app appends these routes to its own list
    and does not include a router: FastAPI would build the routes of an included router again, on
    the event loop, at the first request.
    """
    guarded, prepared, authorized = Depends(guard), Depends(prepare_page), Depends(authorize)
    return (
        Route(f"{API}/openapi.json", openapi_document, include_in_schema=False),
        *api_routes(API, [guarded], [Depends(TOKEN)]),
        *routes_under("", [guarded, authorized], metrics_router, mcp_router, openai_router),
        *routes_under("", [guarded, prepared], login_router),
        *routes_under("", [guarded, prepared, authorized], *PAGES),
        Mount("/static", Assets(), name="static"),
    )


def openapi_document(request: Request) -> Response:
    """Return the app's OpenAPI document as a JSON response.

    If a proxy serves the app under a path, the document's ``servers`` names that path.
    """
    document = request.app.openapi()
    root_path = request.scope.get("root_path", "").rstrip("/")
    if root_path:
        document = {**document, "servers": [{"url": root_path}]}
    return JSONResponse(document)


class WebApp(FastAPI):
    """A FastAPI app that builds its OpenAPI document at the first request for it.

    One thread builds the document. Other threads that need it wait until it is built.
    """

    #: One for all apps, since the shared routes build schemas for the document.
    _document_lock = threading.Lock()

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document of the app.

        The first call builds the document, which takes almost a second. Later calls return it.
        """
        with self._document_lock, _without_collections():
            return super().openapi()


@contextmanager
def _without_collections() -> Iterator[None]:
    """Disable garbage collection in the block.

    Pydantic parses Python source to read the descriptions of fields. Before Python 3.11.8, garbage
    collection during the parsing can switch to another thread. If that thread parses Python too,
    one of the two fails with "AST constructor recursion depth mismatch".
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
