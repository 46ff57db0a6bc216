"""The HTTP server process: it serves the app on a socket until it is asked to stop.

On shutdown, event streams end as if their clients had disconnected.
"""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from perdure.worker.web.connections import BoundedConnection


class StreamCloser:
    """An app that ends its streams on shutdown.

    Other responses finish. A stream ends with a complete response, so the client sees no error. The
    client reconnects where it stopped, and reaches another server process or the next one.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._leaving = asyncio.Event()

    def leave(self) -> None:
        """End all open streams: the HTTP server shuts down."""
        self._leaving.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the app for a request, and end its stream on shutdown."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        read = unfinished = False

        async def receive_until_shutdown() -> Message:
            nonlocal read
            # After the whole request, an app receives only to learn that the client disconnected.
            if read:
                return await self._wait_for_disconnect(receive)
            message = await receive()
            read = not message.get("more_body", False)
            return message

        async def send_and_track(message: Message) -> None:
            nonlocal unfinished
            unfinished = message["type"] == "http.response.start" or bool(
                message.get("more_body", False)
            )
            await send(message)

        await self._app(scope, receive_until_shutdown, send_and_track)
        # The app has ended the stream, perhaps because its stream library handles the signal too.
        # If the client has gone, this message does no harm.
        if unfinished:
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _wait_for_disconnect(self, receive: Receive) -> Message:
        disconnect, stopping = (
            asyncio.ensure_future(receive()),
            asyncio.ensure_future(self._leaving.wait()),
        )
        try:
            await asyncio.wait((disconnect, stopping), return_when=asyncio.FIRST_COMPLETED)
            return disconnect.result() if disconnect.done() else {"type": "http.disconnect"}
        finally:
            disconnect.cancel()
            stopping.cancel()


#: Seconds that open requests get to finish on shutdown. Streams end at once.
SHUTDOWN_SECONDS = 3


def serve(
    app: ASGIApp, listening: socket.socket, say_ready: Callable[[], None], root_path: str = ""
) -> None:
    """Serve HTTP requests until SIGTERM or Ctrl-C, then return.

    A second Ctrl-C does not wait for open requests.

    Args:
        listening: A listening socket. It is closed at the end.
        say_ready: Called once requests are served.
        root_path: The path under which a proxy serves this app.
    """
    WebServer(StreamCloser(app), say_ready, root_path).run([listening])


class WebServer(uvicorn.Server):
    """Uvicorn's server with the shutdown of Perdure's other processes.

    After a signal to stop, it ends with exit code 0.
    """

    def __init__(self, app: StreamCloser, say_ready: Callable[[], None], root_path: str) -> None:
        config = uvicorn.Config(
            app,
            http=BoundedConnection,
            root_path=root_path,
            access_log=False,
            log_config=None,
            server_header=False,
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        )
        super().__init__(config)
        self._leaving = app
        self._say_ready = say_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start listening for HTTP requests, then call ``say_ready``."""
        await super().startup(sockets)
        self._say_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Shut the HTTP server down: end the event streams, then wait for other requests."""
        self._leaving.leave()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Shut the HTTP server down on SIGINT and SIGTERM.

        Uvicorn's version sends itself the signal again at the end, and so dies by it.
        """
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self.handle_exit)
        yield
