"""AsyncClient: Client's methods, awaited; many waits at once need no further threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from perdure import AsyncClient, RunNotFound, RunStatus
from perdure.worker.settings import Settings
from tests.support.workers import WorkerProcess


@pytest.mark.slow
def test_many_runs_are_waited_for_at_once_and_events_come_as_they_happen(
    settings: Settings, worker_process: Callable[..., WorkerProcess]
) -> None:
    async def story() -> None:
        client = AsyncClient(settings=settings)
        asked = await client.submit("question", "who?", run_id="ask")

        async def types() -> list[str]:
            return [event.type async for event in client.events("ask")]

        following = asyncio.create_task(types())
        await asyncio.to_thread(
            worker_process
        )  # until then nothing happens, and the one who follows looks in vain
        runs = [await client.submit("countdown", "x", {"rounds": 2}) for _ in range(40)]
        ended = await asyncio.gather(*(client.wait(run.id, 30) for run in runs))
        assert {run.status for run in ended} == {RunStatus.COMPLETED}
        assert (await client.wait(asked.id, 20)).status is RunStatus.INTERRUPTED

        await client.resume("ask", "me")
        heard = await asyncio.wait_for(following, 20)
        assert heard[0] == "submitted" and heard[-1] == "completed" and "resumed" in heard
        assert [event.type async for event in client.events("ask", follow=False)] == heard
        assert (await client.transcript("ask"))["run"]["answer"] == "me"
        assert len(await client.runs(limit=100)) == 41 and len(await client.workers()) == 1
        assert (await client.request_stop("nobody")).known is False
        with pytest.raises(RunNotFound):
            await client.get("nobody")
        await client.close()

    asyncio.run(story())


def test_a_wait_ends_with_its_timeout_and_can_be_cancelled(settings: Settings) -> None:
    async def story() -> None:
        client = AsyncClient(settings=settings)
        run = await client.submit("countdown", "x")
        with pytest.raises(TimeoutError, match="no live worker"):
            await client.wait(run.id, 0.05)
        waiting = asyncio.create_task(client.wait(run.id))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await client.close()

    asyncio.run(story())
