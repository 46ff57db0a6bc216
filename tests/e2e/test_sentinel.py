"""A server under Sentinels holds the runs and carries their messages, as any other does."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import redis

from perdure import Client, Settings
from perdure.worker.doctor import Finding, Level
from perdure.worker.store import NotReplicated, StoreUnavailable
from perdure.worker.store.sentinel import client_of, close
from perdure.worker.urls import parse_sentinels
from tests.support.command_line import CommandLine
from tests.support.commit_log import exact
from tests.support.redis_servers import CrashableServer, until
from tests.support.sentinels import Watched, watched
from tests.support.workers import workers

pytestmark = pytest.mark.slow
ROUNDS = 6
PASSWORD = "a-secret"


@pytest.fixture(scope="module")
def service() -> Iterator[Watched]:
    with watched(password=PASSWORD) as running:
        yield running


@pytest.fixture
def settings(service: Watched, prefix: str) -> Settings:
    return Settings(
        redis_url=service.url, prefix=prefix, flow_modules=("tests.support.example_flows.rings",)
    )


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
    assert client._store.lists.counts()["due"] == 0


def test_a_malformed_message_goes_to_the_dead_letters_and_the_worker_lives(
    client: Client, settings: Settings
) -> None:
    good = json.loads(client._connection.publisher.message("controller", "nobody", 0, 0).text)
    without_id = {
        **good,
        "headers": {name: value for name, value in good["headers"].items() if name != "id"},
    }
    malformed = [
        "",
        "null",
        "{",
        json.dumps(without_id),
        json.dumps({**good, "body": "!"}),
        json.dumps({**good, "headers": None}),
    ]
    with workers(1, settings) as [worker]:
        for text in malformed:
            client._store.redis.lpush(client._store.keys.queue("controller"), text)
        run = client.submit("ledger", "g", {"rounds": ROUNDS})
        client.wait(run.id, 20)
        assert exact(client, run.id, ROUNDS)
        until(lambda: len(client._store.fleet.dead_letters()) == len(malformed), "all letters")
        assert worker.process.poll() is None
    assert "no header 'id'" in [letter["why"] for letter in client._store.fleet.dead_letters()]


def test_a_master_that_another_has_replaced_is_left_long_before_it_is_told(
    client: Client, settings: Settings, service: Watched
) -> None:
    """A failover on request: no server dies, and the old master goes on for ten seconds, confirming
    writes that will be undone.
    """
    with workers(1, settings) as [worker]:
        run = client.submit("ledger", "g", {"rounds": 60, "seconds": 0.05})
        until(lambda: client.get(run.id).state.step > 5, "some rounds")
        old = service.master()
        with service.client(service.sentinels[0]) as sentinel:
            sentinel.execute_command("SENTINEL", "FAILOVER", "perdure")
        new = service.another_master(old)
        with service.client(new) as master:
            until(lambda: reaches(client, master), "a submit that reaches the new master", 5)
        with service.client(old) as demoted:
            assert demoted.info("replication")["role"] == "master", (
                "it must not have been told yet, or nothing was shown"
            )
        another = client.submit("ledger", "g", {"rounds": ROUNDS})
        for run_id, rounds in ((run.id, 60), (another.id, ROUNDS)):
            client.wait(run_id, 60)
            assert exact(client, run_id, rounds)
        assert worker.process.poll() is None
    until(
        lambda: len(service.following(new)) == 2 and service.well(),
        "the old master as a replica",
        60,
    )


def reaches(client: Client, server: redis.Redis) -> bool:
    """Submit a run; whether this server has it."""
    try:
        return bool(
            server.exists(client._store.keys.run(client.submit("countdown", "g", {"rounds": 2}).id))
        )
    except StoreUnavailable:
        return False


def test_sentinels_that_answer_nothing_cost_no_worker_a_lease_while_the_master_lives(
    client: Client, settings: Settings, service: Watched
) -> None:
    with workers(1, settings) as [worker]:
        run = client.submit("ledger", "g", {"rounds": 12, "seconds": 1.0})
        until(lambda: client.get(run.id).state.step > 0, "the first round")
        for port in service.sentinels:
            service.signal(port, signal.SIGSTOP)
        try:
            client.wait(run.id, 60)
        finally:
            for port in service.sentinels:
                service.signal(port, signal.SIGCONT)
        assert exact(client, run.id, 12)
        assert [
            event.type for event in client.events(run.id, follow=False) if event.type == "lost"
        ] == []
        assert worker.process.poll() is None
    until(lambda: service.well() and service.settled(), "Sentinels that see each other", 60)


def test_messages_may_travel_through_a_service_while_the_runs_are_elsewhere(
    server: CrashableServer, settings: Settings, prefix: str
) -> None:
    apart = settings.model_copy(update={"redis_url": server.url, "broker_url": settings.redis_url})
    client = Client(settings=apart)
    with workers(1, apart):
        run = client.submit("ledger", "g", {"rounds": ROUNDS})
        client.wait(run.id, 30)
        assert exact(client, run.id, ROUNDS)
        assert {worker["handover"] for worker in client.workers()} == {"outbox"}
        assert client._connection.publisher.lengths() == dict.fromkeys(
            client._store.keys.queue_names, 0
        )
    client.close()


def row(client: Client, check: str) -> Finding:
    [found] = [finding for finding in client.doctor() if finding.check == check]
    return found


def test_the_doctor_asks_every_sentinel(client: Client, service: Watched) -> None:
    assert row(client, "sentinels") == Finding(
        "sentinels",
        Level.OK,
        f"3 Sentinels agree on the master 127.0.0.1:{service.master()}; 2 replicas could take its place",
    )
    one = service.sentinels[0]
    service.signal(one, signal.SIGSTOP)
    try:
        told = row(client, "sentinels")
        assert told.level is Level.WARNING and f"127.0.0.1:{one} do not answer" in told.sentence
    finally:
        service.signal(one, signal.SIGCONT)
    until(service.well, "Sentinels that see each other")


def test_the_doctor_tells_of_a_quorum_that_cannot_be_had(client: Client, service: Watched) -> None:
    with service.client(service.sentinels[0]) as sentinel:
        sentinel.execute_command("SENTINEL", "SET", "perdure", "quorum", "4")
        try:
            assert "too few Sentinels reach each other" in row(client, "sentinels").sentence
        finally:
            sentinel.execute_command("SENTINEL", "SET", "perdure", "quorum", "2")


def test_the_doctor_tells_of_replicas_that_are_waited_for_and_are_not_there(
    settings: Settings,
) -> None:
    waiting = Client(settings=settings.model_copy(update={"wait_replicas": 3}))
    told = row(waiting, "replicas")
    assert (
        told.level is Level.WARNING
        and "wait_replicas is 3, but the server has 2 replicas" in told.sentence
    )
    with pytest.raises(NotReplicated):
        waiting.submit("countdown", "g", {"rounds": 2})
    waiting.close()


def test_the_command_line_takes_the_url_and_says_what_was_not_replicated(
    tmp_path: Path, settings: Settings
) -> None:
    assert settings.redis_url is not None
    perdure = CommandLine(tmp_path, PERDURE_PREFIX=settings.prefix)
    made = perdure(
        "submit",
        "countdown",
        "g",
        "--input-json",
        "rounds=2",
        "--url",
        settings.redis_url,
        "--json",
    )
    assert made.code == 0
    assert [run["id"] for run in perdure("list", "--url", settings.redis_url, "--json").json] == [
        made.json["id"]
    ]
    refused = perdure(
        "submit",
        "countdown",
        "g",
        "--input-json",
        "rounds=2",
        "--url",
        settings.redis_url,
        variables={"PERDURE_WAIT_REPLICAS": "3"},
    )
    assert refused.code == 7 and "2 of 3 replicas had it within 1 s" in refused.err


@pytest.mark.parametrize("wrong", ["password", "master", "sentinels"])
def test_a_url_that_leads_nowhere_is_told_without_its_password(
    tmp_path: Path, settings: Settings, service: Watched, wrong: str
) -> None:
    hosts = ",".join(f"127.0.0.1:{port}" for port in service.sentinels)
    url = {
        "password": f"redis+sentinel://:not-{PASSWORD}@{hosts}/perdure/0",
        "master": f"redis+sentinel://:{PASSWORD}@{hosts}/another/0",
        "sentinels": f"redis+sentinel://:{PASSWORD}@127.0.0.1:1,127.0.0.1:2/perdure/0",
    }[wrong]
    told = CommandLine(tmp_path)("list", "--url", url)
    assert (
        told.code == (8 if wrong == "password" else 7) and "redis+sentinel://127.0.0.1" in told.err
    )
    assert PASSWORD not in told.out + told.err
    client = Client(url)
    with pytest.raises(StoreUnavailable) as error:
        client.runs()
    assert PASSWORD not in str(error.value)
    client.close()


def test_no_sentinel_is_forgotten_however_many_threads_ask_at_once(
    service: Watched, settings: Settings
) -> None:
    """redis-py puts the Sentinel that answered first in front, in place; two threads at once can
    drop the third.
    """
    client = client_of(str(parse_sentinels(settings.redis_url or "")))
    manager = client.connection_pool.sentinel_manager  # type: ignore[attr-defined]
    all_of_them = {id(sentinel) for sentinel in manager.sentinels}
    service.signal(service.sentinels[0], signal.SIGSTOP)
    try:
        with ThreadPoolExecutor(8) as threads:
            for _ in range(3):
                list(threads.map(lambda _: manager.discover_master("perdure"), range(8)))
    finally:
        service.signal(service.sentinels[0], signal.SIGCONT)
    assert {id(sentinel) for sentinel in manager.sentinels} == all_of_them
    close(client)
