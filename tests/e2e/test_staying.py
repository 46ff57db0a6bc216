"""Runs of short rounds stay with their worker for a while, at no cost to other runs.

Real workers, real rounds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

from perdure import Client, Settings
from perdure.worker.domain.verdict import VerdictCode
from perdure.worker.runtime.runtime import Runtime
from tests.support.commit_log import commits, exact
from tests.support.in_process_runtime import begin_fast_path, runtime_of
from tests.support.redis_commands import monitored
from tests.support.redis_servers import until
from tests.support.workers import workers

ONE_PLACE = ("--pool", "threads", "--concurrency", "1")
#: Rounds of a run that is not to end by itself before a test has looked at it.
MANY = 20_000


pytestmark = pytest.mark.settings(flow_modules=("tests.support.example_flows.rings",))


def under_way(client: Client, run_id: str) -> None:
    """Wait until the run has come some rounds far."""
    since = client.get(run_id).state.step
    until(lambda: client.get(run_id).state.step > since + 20, "rounds under way", 30)


def test_most_rounds_of_a_run_stay_and_are_one_command(client: Client, settings: Settings) -> None:
    with workers(1, settings):
        client.wait(client.submit("ledger", "warm up", {"rounds": 4}).id, 30)
        with monitored(client._store) as counts:
            run = client.submit("ledger", "count", {"rounds": 200})
            client.wait(run.id, 60)
    assert exact(client, run.id, 200)
    assert counts["commit_and_continue"] + counts["commit_round"] == 200
    assert counts["commit_and_continue"] > 100, counts
    assert counts["claim_round"] <= 10 and counts["RPOP"] == 0, counts


def test_a_lone_run_keeps_to_one_thread(client: Client, settings: Settings) -> None:
    with workers(1, settings, "--pool", "threads", "--concurrency", "4"):
        assert client.wait(client.submit("threads", "look", {"rounds": 300}).id, 60).answer == 1


@pytest.mark.parametrize(
    "pool", [ONE_PLACE, pytest.param(("--pool", "solo"), marks=pytest.mark.slow)]
)
def test_others_get_their_turn_beside_a_run_without_end(
    client: Client, settings: Settings, pool: tuple[str, ...]
) -> None:
    """One slot, one run that would keep it for ever: another run is played through meanwhile."""
    with workers(1, settings, *pool):
        endless = client.submit("threads", "for ever", {"rounds": MANY}).id
        under_way(client, endless)
        short = client.submit("ledger", "count", {"rounds": 30}).id
        client.wait(short, 60)
        assert exact(client, short, 30) and client.get(endless).phase in ("leased", "queued")
        under_way(client, endless)
        client.request_stop(endless, mode="now")


@pytest.mark.parametrize("mode", [pytest.param("graceful", marks=pytest.mark.slow), "now"])
def test_a_stop_reaches_a_run_that_stays(client: Client, settings: Settings, mode: str) -> None:
    with workers(1, settings):
        run_id = client.submit("threads", "for ever", {"rounds": MANY}).id
        under_way(client, run_id)
        receipt = client.request_stop(run_id, mode=mode)
        until(lambda: client.get(run_id).phase == "stopped", "the run has stopped", 30)
        steps = commits(client, run_id)
        assert receipt.step is not None and len(steps) <= receipt.step + (mode == "graceful")
        client.resume(run_id)
        under_way(client, run_id)
        client.request_stop(run_id, mode="now")
    steps = commits(client, run_id)
    assert steps == list(range(len(steps)))


@pytest.mark.slow
def test_a_paused_flow_is_held_though_its_run_stays(client: Client, settings: Settings) -> None:
    with workers(1, settings):
        run_id = client.submit("ledger", "count", {"rounds": 2_000}).id
        under_way(client, run_id)
        client.pause_flow("ledger", reason="a look")
        until(lambda: client.get(run_id).phase != "leased", "the run is held", 30)
        held = client.get(run_id).state.step
        assert 0 < held < 2_000
        assert client.why(run_id).code == VerdictCode.FLOW_PAUSED
        client.unpause_flow("ledger")
        client.wait(run_id, 90)
    assert exact(client, run_id, 2_000)


@pytest.mark.slow
def test_what_a_killed_worker_had_is_played_by_another(client: Client, settings: Settings) -> None:
    ids = [client.submit("ledger", "count", {"rounds": 500}).id for _ in range(4)]
    with workers(1, settings) as (first,):
        for run_id in ids:
            until(lambda run_id=run_id: client.get(run_id).state.step > 5, "rounds under way", 30)
        first.kill()
    lost = [run_id for run_id in ids if client.get(run_id).phase == "leased"]
    assert lost, "nothing was in flight"
    unmade = [
        run_id
        for run_id in lost
        if client._store.reads.some_fields([run_id], ["message"]) == [{"message": ""}]
    ]
    assert unmade, "no run had stayed"
    with workers(1, settings):
        for run_id in ids:
            client.wait(run_id, 60)
    assert all(exact(client, run_id, 500) for run_id in ids)
    assert all(
        sum(event.type == "lost" for event in client.events(run_id, follow=False)) == 1
        for run_id in lost
    )


@pytest.fixture
def engine(settings: Settings, client: Client) -> Iterator[Runtime]:
    """Plays rounds in this process."""
    made = Runtime(runtime_of(client).app, settings)
    yield made
    made.write_stats()  # the heartbeat would, after the test
    made.close()


def test_a_failed_round_of_a_run_that_stayed_brings_its_message(
    client: Client, engine: Runtime
) -> None:
    """A worker of an older version beside this one may sweep it: it cannot make one, and takes a
    run without any for damaged.
    """
    run_id = client.submit("stumbles", "g", {"rounds": 4}).id
    engine.store.redis.delete(*engine.store.keys.queue_names)
    fast = begin_fast_path(engine)
    first = fast.handoff(until=math.inf)  # however busy this machine is
    assert engine.rounds.run(run_id, 0, 0, first).word == "continued"
    assert (
        first.prefetched is not None
        and first.prefetched.claim is not None
        and first.prefetched.claim.carried_over
    )
    assert client._store.reads.some_fields([run_id], ["message"]) == [{"message": ""}]
    assert engine.rounds.run(run_id, 0, 1, fast.handoff(first.prefetched.claim)).word == "waiting"
    (stored,) = client._store.reads.some_fields([run_id], ["message"])
    until(
        lambda: (
            client._store.fleet.sweep(lease=20_000, max_losses=3, jitter=0.5).report
            == [(run_id, "woken")]
        ),
        "the retry is sent",
        30,
    )
    (queue,) = [name for name in engine.store.keys.queue_names if engine.store.redis.llen(name)]
    assert engine.store.redis.lrange(queue, 0, -1) == [stored["message"]]
    assert f"('{run_id}', 0, 1)" in stored["message"]
