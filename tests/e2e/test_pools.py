"""Celery's pools: who plays a round, how its slot becomes free, and the death of a process of the
pool.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from perdure import Client, RunStatus, Settings
from tests.support.commit_log import commits
from tests.support.os_processes import ended, kill_process_of, process_of
from tests.support.redis_servers import CrashableServer, server, until
from tests.support.workers import ONE_AND_SLOWLY_THE_OTHERS, POOLS, WorkerProcess, workers

MODULES = ("tests.support.example_flows.rings", "tests.support.example_flows.coroutine_node")
#: Longer than any test waits: a recovery within it is owed to the parent, which tells that its
#: child died.
LONG_LEASE = "120"


@pytest.fixture(scope="module")
def own_server() -> Iterator[CrashableServer]:
    with server("valkey") as running:
        yield running


@pytest.fixture
def settings(own_server: CrashableServer, prefix: str) -> Settings:
    return Settings(redis_url=own_server.url, prefix=prefix, flow_modules=MODULES)


def one_place(
    settings: Settings, pool: str, app: str = "perdure.app", **environment: str
) -> AbstractContextManager[list[WorkerProcess]]:
    """Start a worker with one slot."""
    modules = ",".join(MODULES)
    return workers(
        1,
        settings,
        "--pool",
        pool,
        "--concurrency",
        "1",
        app=app,
        PERDURE_FLOW_MODULES=modules,
        **environment,
    )


def leased(client: Client, run_id: str, attempt: int = 1) -> bool:
    run = client.get(run_id)
    return run.phase == "leased" and run.details["attempt"] == attempt


def events(client: Client, run_id: str) -> list[str]:
    return [event.type for event in client.events(run_id, follow=False)]


@pytest.mark.parametrize(
    "pool", ["threads", "solo", pytest.param("prefork", marks=pytest.mark.slow)]
)
def test_each_pool_plays_runs_and_says_how_many_rounds_are_in_flight(
    client: Client, settings: Settings, pool: str
) -> None:
    with one_place(settings, pool) as [worker]:
        (told,) = client.workers()
        assert (told["pool"], told["concurrency"], told["rounds"]) == (pool, 1, 0)
        run = client.submit("ledger", "g", {"rounds": 2, "seconds": 60})
        until(lambda: leased(client, run.id), "the round in flight")
        assert (process_of(client, run.id) != worker.process.pid) == (pool == "prefork")
        until(lambda: client.workers()[0]["rounds"] == 1, "the round to be counted")
        client.request_stop(run.id, mode="now")
        until(lambda: client.workers()[0]["rounds"] == 0, "the round not to be counted any more")
        assert client.wait(client.submit("ledger", "g", {"rounds": 3}).id, 20).answer == [0, 1, 2]


@pytest.mark.parametrize("flow", ["ledger", pytest.param("coroutine", marks=pytest.mark.slow)])
@pytest.mark.parametrize("pool", ONE_AND_SLOWLY_THE_OTHERS)
def test_stop_now_frees_the_only_place_of_a_round_that_looks_or_awaits(
    client: Client, settings: Settings, pool: str, flow: str
) -> None:
    with one_place(settings, pool):
        run = client.submit(flow, "g", {"rounds": 1, "seconds": 600})
        until(lambda: leased(client, run.id), "the round in flight")
        playing = process_of(client, run.id)
        assert client.request_stop(run.id, mode="now").stopped
        other = client.submit("ledger", "behind it", {"rounds": 1, "seconds": 0.5})
        until(lambda: leased(client, other.id), "the place to be free")
        assert process_of(client, other.id) == playing, "no process had to die for it"
        assert client.wait(other.id, 20).answer == [0]
    assert commits(client, run.id) == []


@pytest.mark.slow
@pytest.mark.parametrize("pool", ONE_AND_SLOWLY_THE_OTHERS)
def test_a_time_limit_frees_the_only_place_of_a_coroutine(
    client: Client, settings: Settings, pool: str
) -> None:
    submitter = Client(settings=settings.model_copy(update={"round_timeout_seconds": 0.5}))
    with one_place(settings, pool, PERDURE_MAX_ATTEMPTS="1"):
        run = submitter.submit("coroutine", "g", {"seconds": 600})
        ended = submitter.wait(run.id, 20)
        assert ended.status is RunStatus.ERRORED and "longer than its limit (0.5 s)" in (
            ended.error or ""
        )
        assert client.wait(client.submit("ledger", "behind it", {"rounds": 1}).id, 20).answer == [0]
    submitter.close()


@pytest.mark.slow
@pytest.mark.parametrize("pool", POOLS[1:])  # threads: test_lifecycle.py
def test_a_warm_shutdown_commits_the_round_in_flight_and_leaves_the_rest_to_others(
    client: Client, settings: Settings, pool: str
) -> None:
    with one_place(settings, pool) as [worker]:
        run = client.submit("ledger", "g", {"rounds": 2, "seconds": 3.0})
        until(
            lambda: "beat_at" in (client._store.reads.fields(run.id) or {}),
            "the middle of the round",
        )
        worker.terminate()
        assert worker.process.wait(30) == 0
        after = client.get(run.id)
        assert (after.phase, after.state.step) == ("queued", 1), after.to_dict()
        assert client.workers() == []
    with one_place(settings, pool):
        assert client.wait(run.id, 40).answer == [0, 1]
    assert "lost" not in events(client, run.id)


@pytest.mark.slow
@pytest.mark.parametrize(
    "app",
    ["perdure.app", pytest.param("tests.support.apps.spawn_pool", marks=pytest.mark.slow)],
    ids=["fork", "spawn"],
)
def test_a_killed_child_is_noticed_by_its_parent_and_its_lease_freed_at_once(
    client: Client, settings: Settings, app: str
) -> None:
    """The lease would go on for two minutes, and the next sweep is far away: nothing but the
    parent's word explains it.
    """
    with one_place(
        settings, "prefork", app, PERDURE_LEASE_SECONDS=LONG_LEASE, PERDURE_SWEEP_SECONDS="3600"
    ) as [worker]:
        run = client.submit("ledger", "g", {"rounds": 2, "seconds": 1.5})
        until(lambda: leased(client, run.id), "the round in flight")
        assert client.get(run.id).details["owner"] == worker.name
        assert kill_process_of(client, run.id)
        until(lambda: leased(client, run.id, attempt=2), "the next attempt")
        assert client.wait(run.id, 20).answer == [0, 1]
    assert events(client, run.id).count("lost") == 1


@pytest.mark.slow
def test_two_children_killed_one_after_the_other_are_two_losses(
    client: Client, settings: Settings
) -> None:
    with one_place(settings, "prefork", PERDURE_LEASE_SECONDS=LONG_LEASE):
        run = client.submit("ledger", "g", {"rounds": 1, "seconds": 1.5})
        for attempt in (1, 2):
            until(lambda attempt=attempt: leased(client, run.id, attempt), "the round in flight")
            assert kill_process_of(client, run.id)
            until(
                lambda attempt=attempt: client.get(run.id).details["losses"] == attempt,
                "the loss to be counted",
            )
        assert client.wait(run.id, 20).answer == [0]
    assert events(client, run.id).count("lost") == 2


@pytest.mark.slow
def test_a_killed_child_costs_no_other_round(client: Client, settings: Settings) -> None:
    with workers(
        1, settings, "--pool", "prefork", "--concurrency", "2", PERDURE_LEASE_SECONDS=LONG_LEASE
    ):
        runs = [
            client.submit("ledger", name, {"rounds": 1, "seconds": 4}).id
            for name in ("spared", "struck")
        ]
        until(lambda: all(leased(client, run_id) for run_id in runs), "both rounds in flight")
        assert kill_process_of(client, runs[1])
        assert [client.wait(run_id, 30).answer for run_id in runs] == [[0], [0]]
    assert [events(client, run_id).count("lost") for run_id in runs] == [0, 1]


@pytest.mark.slow
def test_a_stop_asked_gracefully_holds_when_the_child_is_killed(
    client: Client, settings: Settings
) -> None:
    with one_place(settings, "prefork", PERDURE_LEASE_SECONDS=LONG_LEASE):
        run = client.submit("ledger", "g", {"rounds": 1, "seconds": 600})
        until(lambda: leased(client, run.id), "the round in flight")
        client.request_stop(run.id)
        assert kill_process_of(client, run.id)
        until(lambda: client.get(run.id).status is RunStatus.STOPPED, "the stop")
    assert commits(client, run.id) == []


@pytest.mark.slow
def test_a_child_told_to_end_is_a_loss_and_no_failure_of_its_round(
    client: Client, settings: Settings
) -> None:
    """Service managers send SIGTERM to all processes of a service."""
    with one_place(settings, "prefork", PERDURE_LEASE_SECONDS=LONG_LEASE):
        run = client.submit("ledger", "g", {"rounds": 1, "seconds": 1.5})
        until(
            lambda: "beat_at" in (client._store.reads.fields(run.id) or {}),
            "the middle of the round",
        )
        child = process_of(client, run.id)
        assert child is not None
        os.kill(child, signal.SIGTERM)
        until(lambda: leased(client, run.id, attempt=2), "the next attempt")
        assert client.wait(run.id, 20).answer == [0]
    assert events(client, run.id) == ["submitted", "lost", "committed", "completed"]


@pytest.mark.slow
def test_the_process_of_a_round_that_does_not_return_though_nobody_wants_it_is_ended(
    client: Client, settings: Settings
) -> None:
    with one_place(settings, "prefork", app="tests.support.apps.short_linger") as [worker]:
        run = client.submit("deaf", "g", {"seconds": 600})
        until(lambda: leased(client, run.id), "the round in flight")
        assert client.request_stop(run.id, mode="now").stopped
        assert client.wait(client.submit("ledger", "behind it", {"rounds": 1}).id, 30).answer == [0]
        assert worker.process.poll() is None
    assert events(client, run.id) == ["submitted", "stopped"]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="only Linux ends a process with its parent")
def test_no_child_outlives_its_parent(client: Client, settings: Settings) -> None:
    with one_place(settings, "prefork") as [worker]:
        run = client.submit("ledger", "g", {"rounds": 1, "seconds": 600})
        until(lambda: leased(client, run.id), "the round in flight")
        child = process_of(client, run.id)
        assert child is not None
        os.kill(worker.process.pid, signal.SIGKILL)
        until(lambda: ended(child), "the end of the child")


@pytest.mark.slow
def test_where_children_outlive_their_parent_they_finish_their_round_and_end(
    client: Client, settings: Settings
) -> None:
    with one_place(settings, "prefork", "tests.support.apps.orphaned_pool") as [worker]:
        run = client.submit("ledger", "g", {"rounds": 1, "seconds": 3})
        until(lambda: leased(client, run.id), "the round in flight")
        child = process_of(client, run.id)
        assert child is not None
        os.kill(worker.process.pid, signal.SIGKILL)
        assert client.wait(run.id, 20).answer == [0]
        until(lambda: ended(child), "the end of the child")
    assert events(client, run.id) == ["submitted", "committed", "completed"]
