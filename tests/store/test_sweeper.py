"""The sweeping thread, under any amount of work."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from itertools import groupby
from typing import Any

import pytest

from perdure import Settings
from perdure.worker.app import make_app
from perdure.worker.engine.sweeper import AT_ONCE, BATCH, Sweeper
from perdure.worker.messaging.publisher import SameServerPublisher
from perdure.worker.store import Store
from tests.support.redis_servers import CrashableServer, until
from tests.support.runs import LEASE, claim, clock, hash_of, later, new_run, park, phase


def sweeper_of(store: Store) -> Sweeper:
    """Make a sweeper whose thread does not run."""
    settings = Settings(redis_url=store.url, prefix=store.keys.prefix)
    return Sweeper(store, SameServerPublisher(make_app(settings), store.keys), settings, "w", dict)


def test_between_two_batches_of_what_is_due_the_worker_is_announced(store: Store) -> None:
    store.redis.zadd(store.keys.due, {f"gone{number}": 0 for number in range(6 * BATCH + 1)})
    left: list[Any] = []

    def announcement() -> Mapping[str, Any]:
        left.append(store.redis.zcard(store.keys.due))
        return {}

    settings = Settings(
        redis_url=store.url, prefix=store.keys.prefix, heartbeat_seconds=1e-6, sweep_seconds=30
    )
    sweeper = Sweeper(
        store, SameServerPublisher(make_app(settings), store.keys), settings, "me", announcement
    )
    sweeper.start()
    sweeper.wake()  # not after its random phase
    try:
        until(lambda: 0 in left, "the last batch, at once")
    finally:
        sweeper.stop()
    seen = [count for count, _ in groupby(left)]
    assert seen[:4] == [6 * BATCH + 1, 5 * BATCH + 1, (5 - AT_ONCE) * BATCH + 1, 0]


@pytest.fixture
def rarely_sweeps(own_server: CrashableServer) -> Iterator[tuple[Sweeper, Store]]:
    """A sweeper that does not sweep in the time of a test, and the store that it announces itself
    on.
    """
    settings = Settings(
        redis_url=own_server.url, prefix="rare", heartbeat_seconds=0.05, sweep_seconds=1000
    )
    store = Store(own_server.url, "rare")
    sweeper = Sweeper(
        store, SameServerPublisher(make_app(settings), store.keys), settings, "me", dict
    )
    yield sweeper, store
    sweeper.stop()
    store.close()


def test_a_worker_that_could_not_be_announced_is_announced_soon(
    own_server: CrashableServer, rarely_sweeps: tuple[Sweeper, Store]
) -> None:
    sweeper, store = rarely_sweeps
    own_server.kill()
    sweeper.start()
    own_server.restart()
    until(lambda: [name for name, _, _ in store.fleet.workers()] == ["me"], "the announcement")


def test_a_worker_is_announced_each_heartbeat_however_rarely_it_sweeps(
    rarely_sweeps: tuple[Sweeper, Store],
) -> None:
    sweeper, store = rarely_sweeps
    sweeper.start()
    [(_, first, _)] = store.fleet.workers()
    until(lambda: store.fleet.workers()[0][1] > first, "the next announcement")


def test_one_look_in_a_while_is_enough_for_all_sweepers(store: Store) -> None:
    """Thousands of workers sweep: a sweep soon after another does nothing, unless it has a special
    reason.
    """
    sweeper = sweeper_of(store)
    new_run(store)
    claim(store)
    sweeper.sweep()
    later(store, LEASE)
    store.redis.hset(store.keys.queues, "swept_at", clock(store) - 249)
    assert sweeper.sweep(every=0.25) == []
    assert sweeper.sweep() == [("r", "freed")]


def test_a_sweep_of_a_clock_that_was_ahead_holds_nobody_up(store: Store) -> None:
    sweeper = sweeper_of(store)
    sweeper.sweep()
    store.redis.hset(store.keys.queues, "swept_at", clock(store) + 3_600_000)
    sweeper.sweep(every=0.25)
    assert store.redis.hget(store.keys.queues, "swept_at") == str(clock(store))


def test_one_sweep_wakes_all_whose_time_has_come(store: Store) -> None:
    sweeper = sweeper_of(store)
    sleepers = [f"sleeper{number}" for number in range(3)]
    for run_id in sleepers:
        new_run(store, run_id)
        assert park(store, claim(store, run_id), "1", {}, 1_000) == ("ok", "parked")
    sweeper.sweep()
    assert {phase(store, run_id) for run_id in sleepers} == {"parked"}, "never early"
    later(store, 1_000)
    store.redis.script_flush()
    assert sorted(sweeper.sweep()) == [(run_id, "unmade") for run_id in sleepers]
    assert {phase(store, run_id) for run_id in sleepers} == {"queued"}
    messages = [
        json.loads(text) for text in store.redis.lrange(hash_of(store, sleepers[0])["queue"], 0, -1)
    ]
    assert {message["headers"]["argsrepr"].split("'")[1] for message in messages} == set(sleepers)
    assert sweeper.sweep() == []


def test_the_worker_that_swept_last_sweeps_when_the_next_run_is_due(
    own_server: CrashableServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdure.worker.engine.sweeper.EARLY", 10_000)
    settings = Settings(redis_url=own_server.url, prefix="early", sweep_seconds=1000)
    with closing(Store(own_server.url, "early")) as store:
        new_run(store)
        assert park(store, claim(store), "1", {}, 500) == ("ok", "parked")
        publisher = SameServerPublisher(make_app(settings), store.keys)
        sweeper = Sweeper(store, publisher, settings, "me", dict)
        sweeper.start()
        sweeper.wake()  # it sees when the run is due
        try:
            until(lambda: phase(store) == "queued", "a sweep before the usual one")
        finally:
            sweeper.stop()


def test_a_sweep_says_when_the_next_run_is_due(store: Store) -> None:
    options: Any = {"lease": LEASE, "max_losses": 3, "jitter": 0.0}
    assert store.fleet.sweep(**options).due_in is None
    new_run(store)
    claim(store)
    later(store, 100)
    assert store.fleet.sweep(**options).due_in == LEASE - 100
    assert store.fleet.sweep(**options, every=10).due_in is None, "another one has just swept"
    store.redis.zadd(store.keys.due, {"r": "inf"})
    assert store.fleet.sweep(**options).due_in == LEASE, "at most a lease, whatever is stored"


def test_a_sweep_says_that_a_run_beyond_its_batch_is_due_now(store: Store) -> None:
    for run_id in ("r", "s"):
        new_run(store, run_id)
        claim(store, run_id)
    later(store, LEASE + 5)
    assert store.fleet.sweep(lease=LEASE, max_losses=3, jitter=0.0, batch=1).due_in == 0


def test_a_sweep_sweeps_again_once_its_interval_has_passed(store: Store) -> None:
    new_run(store)
    options: Any = {"lease": LEASE, "max_losses": 3, "jitter": 0.0}
    store.fleet.sweep(**options)
    swept = []
    for milliseconds in (9, 1):
        later(store, milliseconds)
        swept.append(store.fleet.sweep(**options, every=10).due_in is not None)
    assert swept == [False, True]


def test_a_run_whose_worker_kept_it_gets_its_message_from_the_next_sweep(store: Store) -> None:
    sweeper = sweeper_of(store)
    new_run(store)
    claim(store)
    store.redis.hset(store.keys.run("r"), "message", "")
    sweeper.sweep()
    later(store, LEASE)
    store.redis.hset(store.keys.queues, "swept_at", clock(store) - 249)
    assert sweeper.sweep() == [("r", "unmade")]
    assert phase(store) == "leased"
    assert sweeper.sweep() == [("r", "freed")]
