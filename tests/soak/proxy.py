"""A TCP proxy in front of the server that can be a bad network: it delays, cuts, half-opens and
swallows replies.

It passes bytes on as they come; its ``mood`` is its treatment of them. It counts its acts in each
mood, so that a fault which hit nothing can be recognized.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter
from pathlib import Path

#: The longest delay of a chunk of bytes, in seconds; longer than a heartbeat's patience (1 s) once
#: in a while.
LONGEST_DELAY = 1.5


class Proxy:
    """Listens on a port of loopback and passes on to the server's Unix socket, or port; runs in a
    separate thread.
    """

    def __init__(self, server: Path | int) -> None:
        self._server = server
        self._mood = "pass"
        self._passed = asyncio.Event()
        self.done: Counter[str] = Counter()
        self.port = 0
        self._chance = random.Random(1)
        self._open: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._up = threading.Event()
        self._thread = threading.Thread(target=self._run, name="soak-proxy", daemon=True)

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def mood(self) -> str:
        """Its treatment of passing bytes: `pass`, `delay`, `half_open` or `swallow`."""
        return self._mood

    @mood.setter
    def mood(self, mood: str) -> None:
        self._mood = mood
        self._loop.call_soon_threadsafe(
            self._passed.clear if mood == "half_open" else self._passed.set
        )

    def start(self) -> None:
        """Return when it listens."""
        self._thread.start()
        assert self._up.wait(10), "the proxy did not start"

    def stop(self) -> None:
        """Stop the proxy, and cut all connections."""
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def cut(self) -> int:
        """Stop all connections, in the middle of any data; return how many there were."""
        return asyncio.run_coroutine_threadsafe(self._cut(), self._loop).result(10)

    async def _end(self) -> None:
        self.mood = "pass"
        await self._cut()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        if tasks:
            await asyncio.wait(tasks, timeout=5)

    async def _cut(self) -> int:
        cut = list(self._open)
        for writer in cut:
            writer.transport.abort()
        self.done["cut"] += len(cut)
        return len(cut)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        door = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port = door.sockets[0].getsockname()[1]
        self._up.set()
        self._loop.run_forever()
        door.close()

    async def _serve(
        self, client_in: asyncio.StreamReader, client_out: asyncio.StreamWriter
    ) -> None:
        try:
            server_in, server_out = await self._reach()
        except OSError:
            client_out.transport.abort()  # as a server that is away refuses
            return
        self._open |= {client_out, server_out}
        try:
            ways = [
                asyncio.create_task(self._pass_on(client_in, server_out, reply=False)),
                asyncio.create_task(self._pass_on(server_in, client_out, reply=True)),
            ]
            _, rest = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in rest:
                way.cancel()
        finally:
            self._open -= {client_out, server_out}
            for writer in (client_out, server_out):
                writer.transport.abort()

    async def _reach(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if isinstance(self._server, int):
            return await asyncio.open_connection("127.0.0.1", self._server)
        return await asyncio.open_unix_connection(str(self._server))

    async def _pass_on(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, reply: bool
    ) -> None:
        try:
            while data := await source.read(1 << 16):
                if self.mood == "delay":
                    self.done["delay"] += 1
                    await asyncio.sleep(LONGEST_DELAY * self._chance.random() ** 3)
                elif self.mood == "half_open":
                    # Both sides stay connected, and nothing comes through any more, not even later:
                    # the bytes are gone.
                    self.done["half_open"] += 1
                    await self._passed.wait()
                    return
                elif self.mood == "swallow" and reply:
                    self.done["swallow"] += 1
                    return  # the request has been done; its sender does not learn it
                target.write(data)
                await target.drain()
        except OSError:
            pass  # one side has hung up: so does the other
