"""Pages of the dashboard that many people have open: their streams cost Redis one blocked read a
server process.
"""

from __future__ import annotations

import asyncio
import html
import re
from collections import Counter
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

from perdure import Client, Settings
from perdure.worker.store import Store
from tests.support.event_stream_client import Watched, listen
from tests.support.redis_servers import server as server_of_its_own
from tests.support.redis_servers import until
from tests.support.server_processes import server_processes

PROCESSES, RUNS = 2, 10
#: Open pages: pages of runs, which hold a stream each, and pages that only reload.
RUN_PAGES, OTHER_PAGES = 185, {"/overview": 5, "/inbox": 5, "/runs": 5}
#: Commands of this test itself, and of opening a connection.
OWN = ("client|list", "client|setinfo", "client|setname", "hello", "info", "select", "xadd")
LIVE = re.compile(r'data-live-events="([^"]+)"')


class Usage:
    """The pages' use of the state server."""

    def __init__(self, store: Store) -> None:
        self._redis = store.redis
        #: The numbers of blocked clients that were seen.
        self.blocked: set[int] = set()

    def count_blocked(self) -> int:
        """Count the clients in a blocked read, by the server's list of its clients."""
        clients: Any = self._redis.client_list()
        count = sum("b" in client["flags"] for client in clients)
        self.blocked.add(count)
        return count

    def commands(self) -> Counter[str]:
        """Count the calls of each command so far, except those of OWN."""
        stats: Any = self._redis.info("commandstats")
        calls = {name.removeprefix("cmdstat_"): each["calls"] for name, each in stats.items()}
        return Counter({name: number for name, number in calls.items() if name not in OWN})


async def open_stream(url: str, path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Open a connection and request a page's stream."""
    port = urlsplit(url).port
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**20)
    head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAccept: text/event-stream\r\n\r\n"
    writer.write(head.encode())
    return reader, writer


async def load(browser: httpx2.AsyncClient, url: str, path: str) -> str:
    """Load the page as a browser does."""
    response = await browser.get(url + path, headers={"accept": "text/html"})
    assert response.status_code == 200, response.text
    return response.text


@pytest.mark.slow
def test_two_hundred_open_pages_cost_redis_one_blocked_read_a_process(prefix: str) -> None:
    with server_of_its_own("valkey", "everysec") as running:
        settings = Settings(redis_url=running.url, prefix=prefix)
        store = Store(running.url, prefix)
        client = Client(settings=settings)
        ids = [client.submit("countdown", f"goal {number}").id for number in range(RUNS)]
        usage = Usage(store)

        def happens(step: int) -> None:
            entry: Any = {"type": "committed", "at": "1", "step": str(step), "attempt": "1",
                          "node": "Controller"}  # fmt: skip
            for run_id in ids:
                store.redis.xadd(store.keys.events(run_id), entry)

        async def watched(readers: list[asyncio.StreamReader]) -> None:
            seen = [Watched() for _ in readers]
            pairs = zip(readers, seen, strict=True)
            reading = [asyncio.create_task(listen(reader, each)) for reader, each in pairs]
            for step in range(3):
                await asyncio.to_thread(happens, step)
                arrived = lambda count=step + 1: all(  # noqa: E731
                    each.types.count("committed") == count for each in seen
                )
                await asyncio.to_thread(until, arrived, f"event {step} on each page")
                one_each = lambda: usage.count_blocked() == PROCESSES  # noqa: E731
                await asyncio.to_thread(until, one_each, "the blocked read of each process")
            # While nothing happens, these reads are all that is sent.
            before = usage.commands()
            has_read = lambda: (  # noqa: E731
                usage.count_blocked() <= PROCESSES and (usage.commands() - before)["xread"] >= 16
            )
            await asyncio.to_thread(until, has_read, "16 blocked reads, one a process at a time")
            sent = usage.commands() - before
            assert sent.total() <= sent["xread"] + PROCESSES, sent
            for task in reading:
                task.cancel()

        async def story(urls: list[str]) -> None:
            async with httpx2.AsyncClient(timeout=60) as browser:
                pages = [
                    await load(browser, urls[number % PROCESSES], f"/runs/{run_id}")
                    for number, run_id in enumerate(ids)
                ]
                streams = [html.unescape(LIVE.findall(page)[0]) for page in pages]
                opened = [
                    (await open_stream(urls[n % PROCESSES], streams[n // PROCESSES % RUNS]))
                    for n in range(RUN_PAGES)
                ]
                try:
                    await watched([reader for reader, _ in opened])
                    # The other pages load themselves again, and block nothing.
                    loading = asyncio.gather(
                        *(
                            load(browser, urls[number % PROCESSES], path)
                            for path, count in OTHER_PAGES.items()
                            for number in range(count)
                        )
                    )
                    while not loading.done():
                        await asyncio.to_thread(usage.count_blocked)
                    assert all("data-live=" in page for page in await loading)
                finally:
                    for _, writer in opened:
                        writer.close()

        with server_processes(PROCESSES, settings) as servers:
            asyncio.run(story([each.url for each in servers]))
            until(lambda: usage.count_blocked() == 0, "the end of the reads with the last page")
        assert max(usage.blocked) == PROCESSES, "one blocked read a process"
        client.close()
        store.close()
