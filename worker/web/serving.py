"""Serving: the app on a socket, until the process is told to leave."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

from worker.web.connections import Connection
from worker.web.leaving import Leaving

#: Seconds that requests get to be answered when the process leaves; streams end at once.
LEAVE_SECONDS = 3


def serve(app: ASGIApp, listening: socket.socket, say_ready: Callable[[], None], root_path: str = "") -> None:
    """Answer requests until SIGTERM or Ctrl-C, then return; a second Ctrl-C does not wait for the requests that are open.

    Args:
        listening: a socket that listens; it is closed.
        say_ready: called once requests are answered.
        root_path: of a proxy that serves this app under a path.
    """
    Serving(Leaving(app), say_ready, root_path).run([listening])


class Serving(uvicorn.Server):
    """Uvicorn's server, which ends as Holdfast's other processes do: with exit code 0 where it was told to leave."""

    def __init__(self, app: Leaving, say_ready: Callable[[], None], root_path: str) -> None:
        config = uvicorn.Config(
            app,
            http=Connection,
            root_path=root_path,
            access_log=False,
            log_config=None,
            server_header=False,
            timeout_graceful_shutdown=LEAVE_SECONDS,
        )
        super().__init__(config)
        self._leaving = app
        self._say_ready = say_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listens, and says so."""
        await super().startup(sockets)
        self._say_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Ends the streams, before it waits for the rest."""
        self._leaving.leave()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Uvicorn's own sends itself the signal once more at the end, and so ends by it."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self.handle_exit)
        yield
