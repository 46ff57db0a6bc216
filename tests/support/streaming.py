"""A control room with a stream that has no end and does not know that servers leave: ``python -m tests.support.streaming``."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator

from fastapi.responses import StreamingResponse

from worker.logs import set_up_logging
from worker.web import create_app
from worker.web.serving import serve


async def endless() -> AsyncIterator[bytes]:
    yield b"data: one\n\n"
    await asyncio.Event().wait()


if __name__ == "__main__":
    set_up_logging("text")
    app = create_app()
    app.add_api_route("/endless", lambda: StreamingResponse(endless(), media_type="text/event-stream"), response_model=None)
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    serve(app, listening, lambda: print(port, flush=True))
