"""Events over HTTP from several servers that end, with a worker that plays."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from itertools import cycle

import pytest

from perdure import Client
from perdure.worker.settings import Settings
from perdure.worker.store import Store
from tests.support import runs as play
from tests.support.event_stream_client import Watched, connect, listen, watch
from tests.support.server_processes import server_processes
from tests.support.watched_runs import finish, ids_of, real_time
from tests.support.workers import WorkerProcess

__all__ = ["real_time"]


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_client_cut_fifty_times_at_any_server_ends_with_the_exact_list(
    settings: Settings, client: Client, worker_process: Callable[..., WorkerProcess]
) -> None:
    """Two servers in turn; each connection is cut after a few events, in the middle of whatever
    comes next.
    """
    chance = random.Random(7)
    with server_processes(2, settings) as rooms:
        worker_process()
        run = client.submit("ledger", "cut", {"rounds": 200, "seconds": 0.02})
        seen: list[str] = []
        cuts, end = 0, None
        for room in cycle(rooms):
            came = asyncio.run(
                watch(room.url, run.id, seen[-1] if seen else None, most=chance.randint(1, 5))
            )
            seen += came.ids
            if came.status == 204 or came.end is not None:
                end = came
                break
            cuts += 1
        told = list(client.events(run.id, follow=False))
        assert seen == [event.id for event in told]
        assert [event.step for event in told if event.type == "committed"] == list(range(200))
        assert cuts >= 50 and end is not None


@pytest.mark.slow
def test_a_server_that_leaves_ends_its_streams_and_another_goes_on_with_them(
    settings: Settings, real_time: Store
) -> None:
    play.new_run(real_time)

    async def story(first: str, second: str) -> None:
        reader, writer = await connect(first, "r")
        seen = await listen(reader, Watched(), most=1)
        leaving = asyncio.create_task(asyncio.to_thread(rooms[0].terminate))
        seen = await listen(reader, seen)
        assert seen.end is None, "the run goes on: whoever watches is to come again"
        writer.transport.abort()
        assert await leaving == 0
        await asyncio.to_thread(finish, real_time)
        rest = await watch(second, "r", seen.ids[-1])
        assert seen.ids + rest.ids == ids_of(real_time) and rest.end is not None

    with server_processes(2, settings) as rooms:
        asyncio.run(story(rooms[0].url, rooms[1].url))
