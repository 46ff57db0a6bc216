"""Web servers on a port of loopback, in a thread of the test's own process."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI, Request

from perdure.worker.settings import Settings
from perdure.worker.web import Caller, create_app
from tests.support.redis_servers import until


@contextmanager
def serving(settings: Settings, caller: Callable[[Request], Caller] | None = None) -> Iterator[str]:
    """Serve the web app, and yield its URL."""
    with serving_app(create_app(settings, caller=caller)) as url:
        yield url


@contextmanager
def serving_app(app: FastAPI) -> Iterator[str]:
    """Serve any app, and yield its URL."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="on"))
    thread = threading.Thread(target=server.run, args=([listening],), name="web-server")
    thread.start()
    try:
        until(lambda: server.started or not thread.is_alive(), "the web server")
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        if hasattr(app.state, "services"):
            app.state.services.hub.close()  # as the signal does that ends a process
        server.should_exit = True
        thread.join(20)
        listening.close()
