"""Traces that a review of the engine found, each kept from coming back."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from perdure import CircularFlow, Client, Node, RoundContext, RunStatus, Settings, register
from tests.conftest import StartsWorkers
from tests.support.redis_servers import CrashableServer, server
from tests.support.workers import WorkerProcess


@register("impolite")
class Impolite(CircularFlow):
    """One node that sleeps past its limit and does not look at its token."""

    topology = (Node("Executor", "sleep"),)
    round_timeout_seconds = 0.2

    def sleep(self, state: dict[str, object], context: RoundContext) -> dict[str, object]:
        if context.attempt == 1:
            threading.Event().wait(4)
        return {self.early_exit_key: True, "answer": context.attempt, "status": "finished"}


@register("reader")
class Reader(CircularFlow):
    """Its second node reads the first turn of a long history, and takes any trouble for an answer."""

    topology = (Node("Controller", "wait", role="controller"),)

    def wait(self, state: dict[str, object], context: RoundContext) -> dict[str, object]:
        try:
            first = str(context.history[0])
        except Exception as error:
            first = f"swallowed {error}"
        return {self.early_exit_key: True, "answer": first, "status": "finished"}


@pytest.fixture
def small_server() -> Iterator[CrashableServer]:
    with server("valkey") as running:
        yield running


@pytest.mark.slow
def test_a_full_server_ends_no_worker_and_a_malformed_message_is_dropped(
    small_server: CrashableServer,
) -> None:
    settings = Settings(
        redis_url=small_server.url,
        prefix="full",
        flow_modules=("tests.support.example_flows.rings",),
    )
    client = Client(settings=settings)
    running = WorkerProcess(settings).ready()
    try:
        run = client.submit("ledger", "g", {"rounds": 3, "seconds": 0.5})
        client._store.redis.lpush(client._store.keys.queue("executor"), "malformed")
        client._store.redis.config_set("maxmemory", "1mb")
        client._store.redis.config_set("maxmemory", "1")
        assert client.wait(run.id, 30).answer == [0, 1, 2]
        for connection in client._store.redis.client_list(_type="normal"):
            if connection["cmd"].startswith("brpop"):
                client._store.redis.client_kill_filter(_id=connection["id"])
        client._store.redis.config_set("maxmemory", "0")
        again = client.submit("ledger", "g", {"rounds": 1})
        assert client.wait(again.id, 30).answer == [0]
        assert running.process.poll() is None
    finally:
        running.close()
        client.close()


@pytest.mark.slow
def test_a_round_that_ignores_its_limit_fails_and_loses_no_worker(
    client: Client, worker_process: StartsWorkers
) -> None:
    worker_process(
        PERDURE_FLOW_MODULES=__name__,
        PERDURE_LEASE_SECONDS="1",
        PERDURE_HEARTBEAT_SECONDS="0.25",
        PERDURE_RETRY_DELAY_SECONDS="0.1",
    )
    run = client.wait(client.submit("impolite", "g").id, 30)
    types = [event.type for event in client.events(run.id, follow=False)]
    assert run.status is RunStatus.COMPLETED and run.answer == 2
    assert "lost" not in types and "failed" in types


def test_a_damaged_history_is_quarantined_though_the_node_swallows_the_error(
    client: Client, worker_process: StartsWorkers
) -> None:
    run = client.submit("reader", "g")
    entries = [f"{'0' * 16} {{}}"] + ["x"] * 9
    client._store.redis.rpush(client._store.keys.memory(run.id), *entries)
    client._store.redis.hset(client._store.keys.run(run.id), "turns", "10")
    worker_process(PERDURE_FLOW_MODULES=__name__)
    ended = client.wait(run.id, 30)
    assert ended.status is RunStatus.ERRORED and "quarantined" in str(ended.error)
