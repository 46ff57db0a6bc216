"""Workers with other flows beside each other: a message goes to a worker that plays its flow, and
no run waits while such a worker lives.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from perdure import Client, Settings, VerdictCode
from perdure.worker.engine.redirect import differences
from tests.support.brokers import Broker, ground
from tests.support.command_line import CommandLine, wait_for_line
from tests.support.commit_log import exact
from tests.support.redis_servers import until
from tests.support.workers import workers

ROUNDS, RUNS = 6, 12
#: No worker sweeps: only a sweep would requeue a run that waits, so it would never go on.
UNSWEPT = {
    "PERDURE_SWEEP_SECONDS": "1000",
    "PERDURE_HEARTBEAT_SECONDS": "60",
    "PERDURE_LEASE_SECONDS": "200",
}
#: Of a worker that plays the shipped flows alone, and so lacks the tests'.
LACKS = {"PERDURE_FLOW_MODULES": ""}
SLOW = pytest.mark.slow


@pytest.fixture(
    scope="module",
    params=["fused", pytest.param("redis", marks=SLOW), pytest.param("rabbit", marks=SLOW)],
)
def servers(request: pytest.FixtureRequest) -> Iterator[tuple[Settings, Broker | None]]:
    with ground(
        request.param, "none", "everysec", flow_modules=("tests.support.example_flows.rings",)
    ) as (
        settings,
        _,
        broker,
    ):
        yield settings, broker


@pytest.fixture
def settings(servers: tuple[Settings, Broker | None], prefix: str) -> Settings:
    return servers[0].model_copy(update={"prefix": prefix})


@pytest.fixture
def client(settings: Settings) -> Iterator[Client]:
    made = Client(
        settings=settings.model_copy(update={"heartbeat_seconds": 60.0, "lease_seconds": 200.0})
    )
    yield made
    made.close()


def handed_on(client: Client, run_id: str) -> list[str]:
    """Return the names of the workers to which the run's messages were forwarded."""
    return [
        event.data["to"]
        for event in client.events(run_id, follow=False)
        if event.type == "handed_on"
    ]


POOLS = {
    "threads": (("--pool", "threads", "--concurrency", "4"), {}),
    "without the fetch": (("--pool", "threads", "--concurrency", "4"), {"PERDURE_FETCH": "0"}),
    "one thread": (("--pool", "threads", "--concurrency", "1"), {}),
    "prefork": (("--pool", "prefork", "--concurrency", "2"), {}),
    "solo": (("--pool", "solo"), {}),
}


@pytest.mark.parametrize(
    "pool", ["threads", *(pytest.param(name, marks=SLOW) for name in POOLS if name != "threads")]
)
def test_a_message_goes_at_once_to_a_worker_that_plays_its_flow(
    client: Client, settings: Settings, pool: str
) -> None:
    options, environment = POOLS[pool]
    with ExitStack() as running:
        (knows,) = running.enter_context(workers(1, settings, *options, **UNSWEPT, **environment))
        running.enter_context(workers(1, settings, *options, **UNSWEPT, **environment, **LACKS))
        ids = [client.submit("ledger", "g", {"rounds": ROUNDS}).id for _ in range(RUNS)]
        for run_id in ids:
            client.wait(run_id, 60)
            assert exact(client, run_id, ROUNDS)
        names = [name for run_id in ids for name in handed_on(client, run_id)]
        assert names and set(names) == {knows.name}, names


@SLOW
def test_each_role_hands_on_to_a_worker_of_its_role(client: Client, settings: Settings) -> None:
    with ExitStack() as running:
        queues = [client._store.keys.queue(role) for role in ("controller", "executor")]
        knowing = {
            running.enter_context(workers(1, settings, "-Q", queue, **UNSWEPT))[0].name
            for queue in queues
        }
        for queue in queues:
            running.enter_context(workers(1, settings, "-Q", queue, **UNSWEPT, **LACKS))
        ids = [client.submit("ledger", "g", {"rounds": ROUNDS}).id for _ in range(RUNS)]
        for run_id in ids:
            client.wait(run_id, 60)
            assert exact(client, run_id, ROUNDS)
        assert {name for run_id in ids for name in handed_on(client, run_id)} <= knowing


def test_a_run_is_handed_on_once_a_round_where_its_message_is_refused(
    client: Client, settings: Settings
) -> None:
    with workers(1, settings, **UNSWEPT), workers(1, settings, **UNSWEPT, **LACKS):
        ids = [client.submit("ledger", "g", {"rounds": ROUNDS}).id for _ in range(RUNS)]
        for run_id in ids:
            client.wait(run_id, 60)
            rounds = [
                (event.step, event.attempt)
                for event in client.events(run_id, follow=False)
                if event.type == "handed_on"
            ]
            assert len(rounds) == len(set(rounds))


@SLOW
def test_a_run_whose_worker_died_with_its_message_is_offered_to_all_again(
    client: Client, settings: Settings
) -> None:
    """The worker that plays the flow has its only slot taken, and dies; a new worker that plays it
    goes on.
    """
    brief = {"PERDURE_RESEND_SECONDS": "0.5"}
    with ExitStack() as running:
        (knows,) = running.enter_context(
            workers(1, settings, "--pool", "threads", "--concurrency", "1", **brief)
        )
        busy = client.submit("deaf", "g", {"seconds": 300}).id
        until(lambda: client.get(busy).phase == "leased", "the only place is taken", 30)
        running.enter_context(workers(1, settings, **brief, **LACKS))
        run_id = client.submit("ledger", "g", {"rounds": ROUNDS}).id
        until(lambda: handed_on(client, run_id) == [knows.name], "the message is handed on", 30)
        assert client.why(run_id).code == VerdictCode.IN_LINE
        knows.kill()
        client.request_stop(busy, mode="now")
        running.enter_context(
            workers(1, settings, "--pool", "threads", "--concurrency", "2", **brief)
        )
        client.wait(run_id, 90)
        assert exact(client, run_id, ROUNDS)


def test_where_no_live_worker_plays_the_flow_the_run_waits_as_before(
    client: Client, settings: Settings
) -> None:
    with ExitStack() as running:
        running.enter_context(workers(1, settings, **LACKS))
        run_id = client.submit("ledger", "g", {"rounds": ROUNDS}).id
        until(lambda: client.get(run_id).phase == "waiting", "the run is refused", 30)
        assert client.why(run_id).code == VerdictCode.UNKNOWN_FLOW
        running.enter_context(workers(1, settings))
        client.wait(run_id, 60)
        assert exact(client, run_id, ROUNDS)


def test_a_worker_says_at_its_start_where_another_plays_other_flows(
    client: Client, settings: Settings, tmp_path: Path
) -> None:
    with workers(1, settings) as (knows,):
        store, flows = (
            client._store,
            next(worker["flows"] for worker in client.workers() if worker["name"] == knows.name),
        )
        assert differences(store, 60.0, "another", "all", flows) == []
        assert differences(store, 60.0, "another", "executor", [*flows, "more"]) != []
        with CommandLine(tmp_path, settings, PERDURE_FLOW_MODULES="").running(
            "worker", "--concurrency", "1"
        ) as started:
            line = wait_for_line(started, "also plays")
            assert str(knows.name) in line and "ledger" in line
