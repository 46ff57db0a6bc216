"""What is no Exception and leaves a round fails it: the worker goes on, and the round's place is free again."""

from __future__ import annotations

import asyncio
import signal
import threading

import pytest
from celery.exceptions import WorkerShutdown

from perdure import Client
from perdure.flows.errors import TOLD_TO_END, ProcessEnd, ends_process
from perdure.flows.executors.mcp.event_loop import BackgroundLoop
from perdure.worker.settings import Settings
from tests.support.example_flows.base_exceptions import ERRORS
from tests.support.workers import ONE_AND_SLOWLY_THE_OTHERS, workers

MODULE = "tests.support.example_flows.base_exceptions"
#: Longer than the test waits: nothing here is owed to a lease that lapsed.
ENVIRONMENT = {
    "PERDURE_FLOW_MODULES": MODULE,
    "PERDURE_LEASE_SECONDS": "120",
    "PERDURE_RETRY_DELAY_SECONDS": "0.05",
}


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"flow_modules": (MODULE,)})


@pytest.mark.parametrize("pool", ONE_AND_SLOWLY_THE_OTHERS)
def test_a_round_that_raises_no_exception_fails_and_its_place_is_free_again(
    client: Client, settings: Settings, pool: str
) -> None:
    # On the main thread WorkerShutdown is Celery's way to end a worker, and stays so.
    goals = [goal for goal in ERRORS if pool == "threads" or goal != "shutdown"]
    with workers(1, settings, "--pool", pool, "--concurrency", "1", **ENVIRONMENT) as [worker]:
        runs = [client.submit("breaks_out", goal).id for goal in goals]
        for run_id in runs:
            assert client.wait(run_id, 30).answer == 2
            assert [event.type for event in client.events(run_id, follow=False)].count(
                "failed"
            ) == 1
        assert worker.process.poll() is None


def test_a_process_ends_by_what_celery_raises_in_the_main_thread_alone() -> None:
    told = SystemExit(TOLD_TO_END)
    assert [ends_process(error) for error in (told, WorkerShutdown(0), ProcessEnd())] == [
        True,
        True,
        True,
    ]
    assert not any(
        map(
            ends_process,
            (SystemExit(1), SystemExit("no"), GeneratorExit(), asyncio.CancelledError()),
        )
    )
    elsewhere: list[bool] = []
    thread = threading.Thread(
        target=lambda: elsewhere.extend(map(ends_process, (told, WorkerShutdown(0), ProcessEnd())))
    )
    thread.start()
    thread.join()
    assert elsewhere == [False, False, True]


def test_ctrl_c_ends_a_process_where_no_worker_has_taken_it() -> None:
    before = signal.getsignal(signal.SIGINT)
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        assert ends_process(KeyboardInterrupt())
        signal.signal(signal.SIGINT, lambda *_: None)
        assert not ends_process(KeyboardInterrupt())
    finally:
        signal.signal(signal.SIGINT, before)


def test_the_loop_of_mcp_sessions_goes_on_when_a_task_raises_system_exit() -> None:
    background = BackgroundLoop()

    async def leave() -> None:
        raise SystemExit(3)

    async def stay() -> int:
        return 7

    with pytest.raises(SystemExit):
        background.run(leave())
    assert background.run(stay(), threading.Event()) == 7
    background.close()
