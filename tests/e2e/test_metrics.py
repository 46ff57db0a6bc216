"""Metrics that Prometheus scrapes from processes of Perdure."""

from __future__ import annotations

import json
from contextlib import closing

import pytest

from perdure import Client
from perdure.worker.metrics.exposition import exposition
from perdure.worker.settings import Settings
from perdure.worker.store import Store
from tests.conftest import StartsWorkers
from tests.support.example_flows import rings  # noqa: F401 -- registers flows
from tests.support.in_process_runtime import played
from tests.support.prometheus import promtool, scrape
from tests.support.rabbitmq import RabbitServer
from tests.support.redis_servers import CrashableServer, until
from tests.support.runs import new_run

HOSTILE = 'a"b\\c\nd{e="f"} 1'


def test_promtool_finds_nothing_to_complain_of(client: Client) -> None:
    run = client.submit("ledger", "go", {"rounds": 9})
    played(client, run.id)
    checked = promtool("check", "metrics", given=exposition(client)[0].decode())
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_promtool_would_complain() -> None:
    assert (
        "counter metrics should have"
        in promtool("check", "metrics", given="# TYPE a counter\na 1\n").stderr
    )


def test_a_hostile_name_of_a_flow_stays_a_label(store: Store, client: Client) -> None:
    new_run(store, fields={"flow": HOSTILE})
    store.redis.hset(store.keys.metrics, json.dumps(["rounds", HOSTILE, "n\n", "continued"]), 1)
    told = scrape(client)
    assert told.value("perdure_runs", flow=HOSTILE, status="queued") == 1
    assert told.value("perdure_rounds_total", flow=HOSTILE, node="n\n", outcome="continued") == 1
    assert promtool("check", "metrics", given=told.text).stderr == ""


@pytest.mark.slow
def test_where_the_broker_is_another_server_lengths_come_from_it(
    server: CrashableServer, rabbit: RabbitServer, prefix: str
) -> None:
    settings = Settings(redis_url=server.url, broker_url=rabbit.url, prefix=prefix)
    with closing(Client(settings=settings)) as client:
        client.submit("ledger", "go", {"rounds": 9})
        until(
            lambda: scrape(client).value("perdure_queue_messages", queue="controller") == 1,
            "the message",
        )
        told = scrape(client)
        assert told.value("perdure_broker_up") == 1
        assert told.value("perdure_queue_oldest_seconds", queue="controller") is None, (
            "nobody can tell"
        )


@pytest.mark.slow
@pytest.mark.parametrize("pool", ["threads", "solo", "prefork"])
def test_a_worker_writes_its_figures_while_it_works_and_when_it_leaves(
    client: Client, worker_process: StartsWorkers, pool: str
) -> None:
    """The beat is a minute apart, so a worker that left in good order wrote the last figures."""
    busy = worker_process("-P", pool, "-c", "2")
    client.wait(client.submit("ledger", "go", {"rounds": 6}).id, 30)
    until(
        lambda: scrape(client).values("perdure_rounds_total", flow="ledger") == 6,
        "the figures of the beat",
    )
    assert scrape(client).values("perdure_worker_slots") == 2
    busy.terminate()
    busy.process.wait(30)
    leaving = worker_process(
        "-P", pool, "-c", "2", PERDURE_HEARTBEAT_SECONDS="60", PERDURE_LEASE_SECONDS="300"
    )
    client.wait(client.submit("ledger", "go", {"rounds": 6}).id, 30)
    assert scrape(client).values("perdure_rounds_total", flow="ledger") == 6
    leaving.terminate()
    leaving.process.wait(30)
    told = scrape(client)
    assert told.values("perdure_rounds_total", flow="ledger", outcome="continued") == 10
    assert told.values("perdure_rounds_total", flow="ledger", outcome="completed") == 2


@pytest.mark.slow
def test_a_killed_worker_shows_in_the_metrics(
    client: Client, worker_process: StartsWorkers
) -> None:
    doomed = worker_process()
    run = client.submit("ledger", "go", {"rounds": 2, "seconds": 2})
    until(lambda: client.get(run.id).details.get("owner") is not None, "the claim")
    doomed.kill()
    worker_process()
    client.wait(run.id, 60)
    told = scrape(client)
    assert told.value("perdure_recoveries_total", flow="ledger", kind="freed") == 1
    assert told.value("perdure_runs_ended_total", flow="ledger", status="completed") == 1
    assert told.value("perdure_runs", flow="ledger", status="running") == 0
