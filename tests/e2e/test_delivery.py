"""Messages may be doubled, late or out of order, or lie: the log stays exact.

Messages that are no round: test_corpus.py.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest
from redis import Redis

from perdure import Client, Settings
from tests.support.commit_log import exact
from tests.support.redis_servers import CrashableServer, available_binaries, server, until
from tests.support.workers import workers

ROUNDS = 6


@pytest.fixture(params=["valkey", pytest.param("redis", marks=pytest.mark.slow)])
def own_server(request: pytest.FixtureRequest) -> Iterator[CrashableServer]:
    if request.param not in available_binaries() and "CI" not in os.environ:
        pytest.skip(f"this machine has no {request.param}-server")
    with server(request.param) as running:
        yield running


@pytest.fixture
def settings(own_server: CrashableServer) -> Settings:
    return Settings(
        redis_url=own_server.url,
        prefix="delivery",
        flow_modules=("tests.support.example_flows.rings",),
    )


@pytest.mark.slow
def test_every_message_delivered_five_times_out_of_order_and_after_the_end_leaves_the_log_exact(
    client: Client, settings: Settings
) -> None:
    with workers(2, settings, app="tests.support.apps.unreliable_broker", COPIES="4"):
        ids = [
            client.submit("ledger", "g", {"rounds": ROUNDS, "seconds": 0.02}).id for _ in range(20)
        ]
        for run_id in ids:
            client.wait(run_id, 60)
        rounds = sorted(f"{run_id} 0 {step}" for run_id in ids for step in range(ROUNDS))
        # The line is empty a moment before the worker that popped the last of them has counted it.
        until(
            lambda: all(delivered(client).get(key, 0) >= 5 for key in rounds),
            "every copy, those of ended runs too, to have reached a worker",
        )
        until(
            lambda: (
                not any(
                    client._store.lists.counts()[name] for name in client._store.keys.queue_names
                )
            ),
            "the copies to be consumed",
        )
        counts = delivered(client)
    assert sorted(counts) == rounds
    print(
        f"{len(counts)} messages, {sum(counts.values())} deliveries, each at least {min(counts.values())} times"
    )
    assert min(counts.values()) >= 5
    assert [run_id for run_id in ids if not exact(client, run_id, ROUNDS)] == []
    assert client._store.lists.counts()["due"] == 0


def delivered(client: Client) -> dict[str, int]:
    """Count how often each round's message reached a worker."""
    return {
        key: int(count)
        for key, count in client._store.redis.hgetall("delivery:test:delivered").items()
    }


@pytest.mark.slow
def test_with_the_broker_on_another_redis_the_dead_letters_are_kept_beside_the_state(
    client: Client, settings: Settings
) -> None:
    with server() as other, Redis.from_url(other.url) as broker:
        with workers(1, settings.model_copy(update={"broker_url": other.url})):
            broker.lpush(client._store.keys.queue("controller"), "{")
            until(lambda: client._store.fleet.dead_letters() != [], "the letter")
        assert not broker.exists(client._store.keys.dead_letters)
    [letter] = client._store.fleet.dead_letters()
    assert letter["message"] == "{"


def test_a_header_that_celery_would_obey_is_taken_off(client: Client, settings: Settings) -> None:
    """``timelimit`` once killed a worker; an unknown header is not passed on either."""
    run = client.submit("ledger", "g", {"rounds": 1})
    redis = client._store.redis
    queue = client._store.keys.queue("controller")
    message = json.loads(redis.rpop(queue))
    message["headers"] |= {"__class__": "x", "stamps": {}, "made_up": [1, 2]}
    redis.rpush(queue, json.dumps(message))
    with workers(1, settings) as [worker]:
        assert client.wait(run.id, 20).answer == [0]
        assert worker.process.poll() is None
    assert client._store.fleet.dead_letters() == []
