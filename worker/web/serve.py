"""The HTTP server process, which runs until a signal stops it.

On shutdown, the app ends its event streams as if their clients had disconnected.
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
    """An ASGI app that wraps another app and ends its event streams on shutdown.

    Other responses finish normally. A stream ends as a complete response, so the client sees no
    error. The client then reconnects, to another server process or to this one after its restart,
    and continues after the last event.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._leaving = asyncio.Event()

    def leave(self) -> None:
        """End all open streams: the HTTP server shuts down."""
        self._leaving.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the wrapped app for one request.

        After the request has been read, a shutdown looks to the app like a disconnected client. If
        the app then ends without completing its response, the response is completed here.
        """
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

    After the signal, open requests get SHUTDOWN_SECONDS to finish. A second Ctrl-C ends them at
    once.

    Args:
        listening: A listening socket. It is closed at the end.
        say_ready: A function that is called when the server begins to accept requests.
        root_path: The path under which a proxy serves this app. '': no proxy changes the path.
    """
    WebServer(StreamCloser(app), say_ready, root_path).run([listening])


class WebServer(uvicorn.Server):
    """Uvicorn's server, but it stops like the other processes of Perdure.

    After SIGINT or SIGTERM, the process ends with exit code 0.
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

        Uvicorn's own version raises the signal again after the shutdown, and the signal then kills
        the process. This version does not.
        """
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self.handle_exit)
        yield
