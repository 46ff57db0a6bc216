"""Brief rounds of many runs are played in a few lanes, and whatever waits is played beside them."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from tests.support import rings as rings  # registers
from tests.support.command_line import CommandLine
from tests.support.monitor import monitored
from tests.support.rings import PLAYED
from tests.support.servers import until
from tests.support.workers import workers
from worker import Client, Settings
from worker.engine import Engine
from worker.fetching import Delivery
from worker.lanes import LANES, Lanes
from worker.store import Granted

PLACES = 4 * LANES
FLOW, NODE = "threads", "Controller"
#: Longer than any test (seconds).
LONG = 60.0


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"flow_modules": ("tests.support.rings",)})


def drive(client: Client, settings: Settings, runs: int, **inputs: Any) -> list[tuple[int, int]]:
    """So many runs of ``traffic`` in one worker; whose rounds were played, and how many were under way beside each."""
    with workers(1, settings, "--pool", "threads", "--concurrency", str(PLACES)):
        client.wait(client.submit("ledger", "warm up", {"rounds": 4}).id, 30)
        ids = [client.submit("traffic", "go", {"number": number, **inputs}).id for number in range(runs)]
        ended = [client.wait(run_id, 60) for run_id in ids]
        assert all(run.answer for run in ended), [run.error for run in ended]
        return max((run.answer for run in ended), key=len)


def test_brief_rounds_of_many_runs_go_on_in_a_few_lanes(client: Client, settings: Settings) -> None:
    """Of any few rounds in a row most are of as many runs as there are lanes, though there are more places."""
    runs, rounds, row = 2 * PLACES, 300, 4 * LANES
    log = [run for run, _ in drive(client, settings, runs, rounds=rounds)]
    middle = log[len(log) // 4 : 3 * len(log) // 4]  # all have begun, and none has ended
    rows = [Counter(middle[place : place + row]).most_common(LANES) for place in range(0, len(middle) - row, row)]
    of_few = sum(count for found in rows for _, count in found) / (row * len(rows))
    assert of_few > 0.75, of_few


def test_rounds_that_wait_are_played_at_once_however_many(client: Client, settings: Settings) -> None:
    log = drive(client, settings, PLACES, rounds=20, seconds=0.02)
    assert median(beside for _, beside in log[40:-40]) > 2 * LANES


def test_nothing_hangs_on_a_lane(client: Client, settings: Settings) -> None:
    """Those that have one wait for the others, after many brief rounds in which they did not."""
    runs = 3 * LANES
    log = drive(client, settings, runs, rounds=40, together=runs)
    assert len(log) == 40 * runs


def test_threads_that_begin_at_once_do_not_each_look_through_all_that_is_installed(
    client: Client, settings: Settings, tmp_path: Path
) -> None:
    """As Celery does where a task, or the app of its first message, first looks for a result backend: 500 threads took a minute for it."""
    holdfast = CommandLine(tmp_path, settings, HOLDFAST_FLOW_MODULES="tests.support.rings,tests.support.looking")
    with holdfast.worker("--concurrency", "32"):
        # All are in their first round together, and make their next messages at once.
        inputs = {"rounds": 2, "seconds": 0.5, "together": 32}
        ids = [client.submit("traffic", "go", {"number": number, **inputs}).id for number in range(32)]
        for run_id in ids:
            client.wait(run_id, 60)
    assert client._store.redis.get(f"{settings.prefix}:test:looked") == "1"  # tests.support.looking's own


@pytest.fixture
def engine(settings: Settings, client: Client, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """Plays rounds in this process, with one lane that nobody is robbed of."""
    monkeypatch.setattr("worker.lanes.OVERDUE_SECONDS", LONG)
    made = Engine(client._engine.app, settings)
    vars(made)["lanes"] = Lanes(1)
    made.fetching.begin(made.store.keys.queue_names, 20, inline=False)
    yield made
    made.write_figures()  # the heartbeat would, after the test
    made.close()


@pytest.fixture
def other() -> Iterator[ThreadPoolExecutor]:
    """Another thread."""
    with ThreadPoolExecutor(1) as pool:
        yield pool


def go_on(client: Client, engine: Engine, rounds: int) -> Granted:
    """Begin a run of brief rounds, and play so many of them; the claim of the next, which stays here."""
    run_id = client.submit(FLOW, "g", {"rounds": 100}).id
    engine.store.redis.delete(*engine.store.keys.queue_names)
    delivery = Delivery(until=math.inf)  # however busy this machine is
    for step in range(rounds):
        engine.lanes.took(FLOW, NODE, 0)
        assert engine.rounds.play(run_id, 0, step, delivery) == "continued"
        assert delivery.fetched is not None and delivery.fetched.claim is not None and delivery.fetched.claim.kept
        claim = delivery.fetched.claim
        delivery = Delivery(claim, until=math.inf)
    engine.lanes.took(FLOW, NODE, 0)
    return claim


def test_a_run_that_goes_on_with_a_brief_round_has_a_lane_and_who_begins_another_makes_room(client: Client, engine: Engine) -> None:
    go_on(client, engine, 1)
    assert not engine.lanes.inside, "the first round of a run needs none"
    go_on(client, engine, 2)
    assert engine.lanes.inside
    go_on(client, engine, 1)
    assert not engine.lanes.inside


def test_who_may_take_longer_makes_room_too(client: Client, engine: Engine) -> None:
    claim = go_on(client, engine, 2)
    assert engine.lanes.inside
    engine.lanes.took(FLOW, NODE, 50)
    assert engine.rounds.play(claim.fields["id"], 0, 2, Delivery(claim)) == "continued"
    assert not engine.lanes.inside


def test_what_a_run_waits_for_a_lane_is_not_taken_off_the_time_for_which_it_stays(
    client: Client, engine: Engine, other: ThreadPoolExecutor
) -> None:
    claim, left = go_on(client, engine, 1), threading.Timer(0.2, lambda: other.submit(engine.lanes.leave))
    other.submit(engine.lanes.enter).result(LONG)
    until = time.monotonic() + LONG
    delivery = Delivery(claim, until=until)
    left.start()
    assert engine.rounds.play(claim.fields["id"], 0, 1, delivery) == "continued"
    left.join()
    assert delivery.until >= until + 0.15


def test_nobody_waits_for_a_lane_until_the_lease_is_over(client: Client, engine: Engine, other: ThreadPoolExecutor) -> None:
    claim = go_on(client, engine, 1)
    other.submit(engine.lanes.enter).result(LONG)
    until = time.monotonic() + LONG
    delivery = Delivery(claim, until=until)
    assert engine.rounds.play(claim.fields["id"], 0, 1, delivery) == "continued"
    assert 0 < delivery.until - until < engine.settings.lease_seconds


@pytest.mark.parametrize("mode", ["graceful", "now"])
def test_a_round_that_waited_is_not_begun_after_its_stop(client: Client, engine: Engine, other: ThreadPoolExecutor, mode: str) -> None:
    claim = go_on(client, engine, 1)
    run_id, begun = claim.fields["id"], len(PLAYED)
    other.submit(engine.lanes.enter).result(LONG)

    def stop() -> None:
        until(engine.lanes._next.locked, "the round waits for the lane", LONG)
        client.request_stop(run_id, mode=mode)
        engine.lanes.leave()

    stopped = other.submit(stop)
    played = engine.rounds.play(run_id, 0, 1, Delivery(claim, since=time.monotonic() - LONG))
    stopped.result(LONG)
    assert played == ("stopped" if mode == "graceful" else "fenced")
    assert len(PLAYED) == begun, "the round was begun after the stop"
    stands = client.get(run_id)
    assert (stands.phase, stands.state.step) == ("stopped", 1)
    client.resume(run_id)
    assert client.get(run_id).phase == "queued", "nothing holds what was given back"


def test_a_fetched_round_is_not_begun_where_its_run_was_stopped_meanwhile(client: Client, engine: Engine) -> None:
    claim = go_on(client, engine, 1)
    engine.lanes.took(FLOW, NODE, 50)  # it waits for no lane
    begun, delivery = len(PLAYED), Delivery(claim, since=time.monotonic() - LONG)
    client.request_stop(claim.fields["id"], mode="now")
    assert engine.rounds.play(claim.fields["id"], 0, 1, delivery) == "fenced"
    assert len(PLAYED) == begun


def test_a_round_that_did_not_wait_reads_nothing_before_it_begins(client: Client, engine: Engine) -> None:
    claim = go_on(client, engine, 2)
    with monitored(engine.store) as counts:
        assert engine.rounds.play(claim.fields["id"], 0, 2, Delivery(claim, since=math.inf)) == "continued"
    assert counts["HMGET"] == 0, counts
