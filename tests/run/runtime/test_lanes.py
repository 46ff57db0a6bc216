"""The CPU limiter: which rounds of a process wait for which."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from perdure import Client, Settings
from perdure.worker.engine.fast.cpu_limiter import CpuLimiter
from perdure.worker.engine.fast.handoff import FastRounds
from perdure.worker.runtime.runtime import Runtime
from perdure.worker.store import Claim
from tests.support.example_flows import rings  # noqa: F401 -- registers flows
from tests.support.example_flows.rings import PLAYED
from tests.support.in_process_runtime import begin_fast_path, runtime_of
from tests.support.redis_commands import monitored
from tests.support.redis_servers import until

FLOW, NODE = "threads", "Controller"
#: Longer than any test (seconds).
LONG = 60.0

pytestmark = pytest.mark.settings(flow_modules=("tests.support.example_flows.rings",))


@pytest.fixture
def engine(
    settings: Settings, client: Client, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Runtime]:
    """Plays rounds in this process, with one slot of the CPU limiter that is never taken away."""
    monkeypatch.setattr("perdure.worker.engine.fast.cpu_limiter.OVERDUE_SECONDS", LONG)
    made = Runtime(runtime_of(client).app, settings)
    yield made
    made.write_stats()  # the heartbeat would, after the test
    made.close()


@pytest.fixture
def fast(engine: Runtime) -> FastRounds:
    """The engine's fast path, with one slot."""
    made = begin_fast_path(engine)
    made.cpu_limiter = CpuLimiter(1)
    return made


@pytest.fixture
def other() -> Iterator[ThreadPoolExecutor]:
    """Another thread."""
    with ThreadPoolExecutor(1) as pool:
        yield pool


def go_on(client: Client, engine: Runtime, fast: FastRounds, rounds: int) -> Claim:
    """Begin a run of brief rounds, and play this number of rounds; return the claim of the next,
    which stays here.
    """
    run_id = client.submit(FLOW, "g", {"rounds": 100}).id
    engine.store.redis.delete(*engine.store.keys.queue_names)
    delivery = fast.handoff(until=math.inf)  # however busy this machine is
    for step in range(rounds):
        fast.cpu_limiter.took(FLOW, NODE, 0)
        assert engine.rounds.run(run_id, 0, step, delivery).word == "continued"
        assert (
            delivery.prefetched is not None
            and delivery.prefetched.claim is not None
            and delivery.prefetched.claim.carried_over
        )
        claim = delivery.prefetched.claim
        delivery = fast.handoff(claim, until=math.inf)
    fast.cpu_limiter.took(FLOW, NODE, 0)
    return claim


def test_a_run_that_goes_on_with_a_brief_round_has_a_lane_and_who_begins_another_makes_room(
    client: Client, engine: Runtime, fast: FastRounds
) -> None:
    go_on(client, engine, fast, 1)
    assert not fast.cpu_limiter.inside, "the first round of a run needs none"
    go_on(client, engine, fast, 2)
    assert fast.cpu_limiter.inside
    go_on(client, engine, fast, 1)
    assert not fast.cpu_limiter.inside


def test_who_may_take_longer_makes_room_too(
    client: Client, engine: Runtime, fast: FastRounds
) -> None:
    claim = go_on(client, engine, fast, 2)
    assert fast.cpu_limiter.inside
    fast.cpu_limiter.took(FLOW, NODE, 50)
    assert engine.rounds.run(claim.fields["id"], 0, 2, fast.handoff(claim)).word == "continued"
    assert not fast.cpu_limiter.inside


def test_what_a_run_waits_for_a_lane_is_not_taken_off_the_time_for_which_it_stays(
    client: Client, engine: Runtime, fast: FastRounds, other: ThreadPoolExecutor
) -> None:
    claim, left = (
        go_on(client, engine, fast, 1),
        threading.Timer(0.2, lambda: other.submit(fast.cpu_limiter.leave)),
    )
    other.submit(fast.cpu_limiter.enter).result(LONG)
    until = time.monotonic() + LONG
    delivery = fast.handoff(claim, until=until)
    left.start()
    assert engine.rounds.run(claim.fields["id"], 0, 1, delivery).word == "continued"
    left.join()
    assert delivery.until >= until + 0.15


def test_nobody_waits_for_a_lane_until_the_lease_is_over(
    client: Client, engine: Runtime, fast: FastRounds, other: ThreadPoolExecutor
) -> None:
    claim = go_on(client, engine, fast, 1)
    other.submit(fast.cpu_limiter.enter).result(LONG)
    until = time.monotonic() + LONG
    delivery = fast.handoff(claim, until=until)
    assert engine.rounds.run(claim.fields["id"], 0, 1, delivery).word == "continued"
    assert 0 < delivery.until - until < engine.settings.lease_seconds


@pytest.mark.parametrize("mode", ["graceful", "now"])
def test_a_round_that_waited_is_not_begun_after_its_stop(
    client: Client, engine: Runtime, fast: FastRounds, other: ThreadPoolExecutor, mode: str
) -> None:
    claim = go_on(client, engine, fast, 1)
    run_id, begun = claim.fields["id"], len(PLAYED)
    other.submit(fast.cpu_limiter.enter).result(LONG)

    def stop() -> None:
        until(fast.cpu_limiter._next.locked, "the round waits for the lane", LONG)
        client.request_stop(run_id, mode=mode)
        fast.cpu_limiter.leave()

    stopped = other.submit(stop)
    played = engine.rounds.run(
        run_id, 0, 1, fast.handoff(claim, since=time.monotonic() - LONG)
    ).word
    stopped.result(LONG)
    assert played == ("stopped" if mode == "graceful" else "fenced")
    assert len(PLAYED) == begun, "the round was begun after the stop"
    stands = client.get(run_id)
    assert (stands.phase, stands.state.step) == ("stopped", 1)
    client.resume(run_id)
    assert client.get(run_id).phase == "queued", "nothing holds what was given back"


def test_a_fetched_round_is_not_begun_where_its_run_was_stopped_meanwhile(
    client: Client, engine: Runtime, fast: FastRounds
) -> None:
    claim = go_on(client, engine, fast, 1)
    fast.cpu_limiter.took(FLOW, NODE, 50)  # it waits for no slot
    begun, delivery = len(PLAYED), fast.handoff(claim, since=time.monotonic() - LONG)
    client.request_stop(claim.fields["id"], mode="now")
    assert engine.rounds.run(claim.fields["id"], 0, 1, delivery).word == "fenced"
    assert len(PLAYED) == begun


def test_a_round_that_did_not_wait_reads_nothing_before_it_begins(
    client: Client, engine: Runtime, fast: FastRounds
) -> None:
    claim = go_on(client, engine, fast, 2)
    with monitored(engine.store) as counts:
        assert (
            engine.rounds.run(claim.fields["id"], 0, 2, fast.handoff(claim, since=math.inf)).word
            == "continued"
        )
    assert counts["HMGET"] == 0, counts
