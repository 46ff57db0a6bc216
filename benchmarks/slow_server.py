"""A server with the latency of a model. It responds to every client after a number of seconds."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class Answering:
    """The server.

    Attributes:
        port: Where it listens, once it has started.
        asked: Clients that wait at present.
        most: The most that have ever waited at once.
        answered: All that were served.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.port = self.asked = self.most = self.answered = 0
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="answering", daemon=True)

    def start(self) -> None:
        """Listen, and set ``port``."""
        self._thread.start()
        self._ready.wait()

    def stop(self) -> None:
        """Stop, without a response to waiting clients."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(
            asyncio.start_server(self._answer, "127.0.0.1", 0, backlog=2000)
        )
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()
        server.close()
        waiting = asyncio.all_tasks(self._loop)
        for task in waiting:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*waiting, return_exceptions=True))
        self._loop.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.CancelledError):
            await reader.readline()
            self.asked += 1
            self.most = max(self.most, self.asked)
            try:
                await asyncio.sleep(self.seconds)
                writer.write(b"!\n")
                await writer.drain()
                self.answered += 1
            finally:
                self.asked -= 1
        writer.close()


@contextmanager
def answering(seconds: float) -> Iterator[Answering]:
    """Start a server that responds after ``seconds``. Stop it afterwards."""
    server = Answering(seconds)
    server.start()
    try:
        yield server
    finally:
        server.stop()
