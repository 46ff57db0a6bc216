"""A server that Sentinels watch over holds the runs and carries their messages, as any other does."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.support.history import exact
from tests.support.sentinels import Watched, watched
from tests.support.servers import until
from tests.support.workers import workers
from worker import Client, Settings

pytestmark = pytest.mark.slow
ROUNDS = 6
PASSWORD = "a-secret"


@pytest.fixture(scope="module")
def service() -> Iterator[Watched]:
    with watched(password=PASSWORD) as running:
        yield running


@pytest.fixture
def settings(service: Watched, prefix: str) -> Settings:
    return Settings(redis_url=service.url, prefix=prefix, flow_modules=("tests.support.rings",))


@pytest.fixture
def client(settings: Settings) -> Iterator[Client]:
    made = Client(settings=settings)
    yield made
    made.close()


@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_runs_and_messages_share_the_service_and_a_round_and_its_message_are_one_write(
    client: Client, settings: Settings, pool: str
) -> None:
    with workers(1, settings, "--pool", pool, "--concurrency", "4"):
        ids = [client.submit("ledger", "g", {"rounds": ROUNDS}).id for _ in range(5)]
        for run_id in ids:
            client.wait(run_id, 30)
        assert {worker["handover"] for worker in client.workers()} == {"fused"}
    assert [run_id for run_id in ids if not exact(client, run_id, ROUNDS)] == []
    assert client._store.counts()["due"] == 0


def test_a_malformed_message_goes_to_the_dead_letters_and_the_worker_lives(client: Client, settings: Settings) -> None:
    good = json.loads(client._engine.dispatcher.message("controller", "nobody", 0, 0).text)
    without_id = {**good, "headers": {name: value for name, value in good["headers"].items() if name != "id"}}
    malformed = ["", "null", "{", json.dumps(without_id), json.dumps({**good, "body": "!"}), json.dumps({**good, "headers": None})]
    with workers(1, settings) as [worker]:
        for text in malformed:
            client._store.redis.lpush(client._store.keys.queue("controller"), text)
        run = client.submit("ledger", "g", {"rounds": ROUNDS})
        client.wait(run.id, 20)
        assert exact(client, run.id, ROUNDS)
        until(lambda: len(client._store.dead_letters()) == len(malformed), "all letters")
        assert worker.process.poll() is None
    assert "no header 'id'" in [letter["why"] for letter in client._store.dead_letters()]
