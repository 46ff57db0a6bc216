"""The broker is away, or was: where it is another server than the runs', that costs time and
nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from perdure import Client, RunStatus, Settings, VerdictCode
from tests.support.brokers import Broker, ground, settled
from tests.support.commit_log import exact
from tests.support.redis_servers import until
from tests.support.workers import workers

ROUNDS = 4


@pytest.fixture(scope="module", params=["redis", pytest.param("rabbit", marks=pytest.mark.slow)])
def servers(request: pytest.FixtureRequest) -> Iterator[tuple[Settings, Broker]]:
    with ground(
        request.param, "none", "everysec", flow_modules=("tests.support.example_flows.rings",)
    ) as (
        settings,
        _,
        broker,
    ):
        assert broker is not None
        yield settings, broker


@pytest.fixture
def settings(servers: tuple[Settings, Broker], prefix: str) -> Settings:
    return servers[0].model_copy(update={"prefix": prefix})


@pytest.fixture
def broker(servers: tuple[Settings, Broker]) -> Broker:
    return servers[1]


@pytest.mark.slow
def test_a_run_submitted_while_the_broker_is_down_is_kept_and_played_when_it_is_back(
    broker: Broker, client: Client, settings: Settings
) -> None:
    with workers(1, settings) as [worker]:
        settled(broker, settings)
        broker.kill()
        run = client.submit("ledger", "g", {"rounds": ROUNDS})
        assert run.status is RunStatus.QUEUED
        until(
            lambda: client.why(run.id).code is VerdictCode.SERVER_SILENT,
            "the verdict that the broker is silent",
        )
        assert "the broker does not answer" in client.why(run.id).sentence
        assert (
            "the broker does not answer"
            in next(finding for finding in client.doctor() if finding.check == "handover").sentence
        )
        broker.start()
        client.wait(run.id, 60)
        assert exact(client, run.id, ROUNDS) and worker.process.poll() is None


@pytest.mark.slow
def test_a_round_in_flight_is_committed_while_the_broker_is_down(
    broker: Broker, client: Client, settings: Settings
) -> None:
    with workers(1, settings):
        run = client.submit("ledger", "g", {"rounds": 3, "seconds": 2.0})
        until(
            lambda: "progress" in (client._store.reads.fields(run.id) or {}),
            "the round to be under way",
        )
        settled(broker, settings)
        broker.kill()
        until(lambda: client.get(run.id).state.step == 1, "the commit")
        broker.start()
        client.wait(run.id, 60)
    assert exact(client, run.id, 3)
    events = [event.type for event in client.events(run.id, follow=False)]
    assert "lost" not in events, "a broker's outage costs no lease"
