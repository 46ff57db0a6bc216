"""The kill tests where the broker is another server than the runs': on every pool, with three of
ten publishes lost.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from perdure import Client, Settings
from tests.crash.test_families import families_under_kills
from tests.support.brokers import Broker, ground, settled
from tests.support.commit_log import exact
from tests.support.redis_servers import until
from tests.support.worker_crashes import (
    PREFORK,
    ROUND_SECONDS,
    ROUNDS,
    SOLO,
    THREADS,
    committed,
    in_flight,
    kill_groups_and_throw_messages,
)
from tests.support.workers import WorkerProcess

Servers = tuple[Settings, Broker]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(params=["redis", "rabbit"])
def servers(request: pytest.FixtureRequest) -> Iterator[Servers]:
    with ground(request.param, "kills", flow_modules=("tests.support.example_flows.rings",)) as (
        settings,
        _,
        broker,
    ):
        assert broker is not None
        yield settings, broker


@pytest.mark.parametrize("options", [THREADS, PREFORK, SOLO], ids=["threads", "prefork", "solo"])
def test_runs_survive_kills_of_the_whole_group_and_publishes_lost(
    servers: Servers, options: tuple[str, ...]
) -> None:
    kill_groups_and_throw_messages(servers[0], runs=8, kills=3, options=options)


def test_families_survive_kills_of_the_whole_group_and_publishes_lost(servers: Servers) -> None:
    pace = {"lease_seconds": 2.0, "heartbeat_seconds": 0.4, "sweep_seconds": 0.3}
    modules = {"flow_modules": ("tests.support.example_flows.child_runs",)}
    families_under_kills(servers[0].model_copy(update=pace | modules), parents=6, kills=3)


def test_forty_runs_survive_three_kills_of_the_broker(servers: Servers) -> None:
    settings, broker = servers
    client = Client(settings=settings)
    running = [WorkerProcess(settings).ready() for _ in range(2)]
    try:
        ids = [
            client.submit("ledger", "g", {"rounds": ROUNDS, "seconds": ROUND_SECONDS}).id
            for _ in range(40)
        ]
        for kill in range(3):
            until(
                lambda kill=kill: committed(client, ids) >= 60 * kill and in_flight(client),
                "a round in flight",
                60,
            )
            settled(broker, settings)
            broker.kill()
            broker.start()
        for run_id in ids:
            client.wait(run_id, 90)
        assert [run_id for run_id in ids if not exact(client, run_id, ROUNDS)] == []
        assert client._store.lists.counts()["due"] == 0
        lost = sum(
            event.type == "lost" for run_id in ids for event in client.events(run_id, follow=False)
        )
        assert lost == 0, "the broker's death costs no lease"
        assert all(worker.process.poll() is None for worker in running), "no worker may die of it"
        print("40 runs exact, 3 kills of the broker, none due, no lease lost, both workers alive")
    finally:
        for worker in running:
            worker.close()
        client.close()
