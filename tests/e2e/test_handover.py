"""How a round's message gets to the workers: the same tests whether the scripts push it, or it is
published to another server.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from perdure import Client, RunStatus, Settings, VerdictCode
from tests.support.brokers import HANDOVERS, Broker, ground
from tests.support.commit_log import exact
from tests.support.redis_servers import until
from tests.support.workers import workers

ROUNDS = 6
FLOWS = ("tests.support.example_flows.rings",)


@pytest.fixture(
    scope="module",
    params=[HANDOVERS[0], *(pytest.param(name, marks=pytest.mark.slow) for name in HANDOVERS[1:])],
)
def servers(request: pytest.FixtureRequest) -> Iterator[tuple[Settings, Broker | None]]:
    with ground(request.param, "none", "everysec", flow_modules=FLOWS) as (settings, _, broker):
        yield settings, broker


#: Only where messages are published.
elsewhere = pytest.mark.parametrize(
    "servers", ["redis", pytest.param("rabbit", marks=pytest.mark.slow)], indirect=True
)


@pytest.fixture
def settings(servers: tuple[Settings, Broker | None], prefix: str) -> Settings:
    return servers[0].model_copy(update={"prefix": prefix})


def types(client: Client, run_id: str) -> list[str]:
    return [event.type for event in client.events(run_id, follow=False)]


def test_a_run_is_played_to_its_answer_without_a_message_sent_twice(
    client: Client, settings: Settings
) -> None:
    with workers(2, settings):
        ids = [client.submit("ledger", "g", {"rounds": ROUNDS}).id for _ in range(10)]
        for run_id in ids:
            client.wait(run_id, 30)
            assert exact(client, run_id, ROUNDS)
            assert types(client, run_id) == ["submitted", *["committed"] * ROUNDS, "completed"]
    assert client._store.lists.counts()["due"] == 0


@pytest.mark.slow
def test_the_same_hand_over_is_found_by_every_process(client: Client, settings: Settings) -> None:
    with workers(1, settings):
        assert [worker["handover"] for worker in client.workers()] == [
            client._connection.publisher.name
        ]
    found = next(finding for finding in client.doctor() if finding.check == "handover")
    assert found.level.value == "ok" and client._connection.publisher.name in found.sentence


def test_an_answer_a_retry_and_a_resume_are_handed_over_too(
    client: Client, settings: Settings
) -> None:
    with workers(1, settings):
        asked = client.submit("asker", "g")
        client.wait(asked.id, 20)
        client.resume(asked.id, answer="yes")
        failed = client.submit("trouble", "g", {"kind": "fatal", "times": 1})
        client.wait(failed.id, 20)
        client.retry(failed.id)
        stopped = client.submit("ledger", "g", {"rounds": 2}, interrupt_before=["Executor"])
        client.wait(stopped.id, 20)
        client.request_stop(stopped.id)
        client.resume(stopped.id)
        client.wait(stopped.id, 20)
        client.resume(stopped.id, answer="go on")
        for run_id in (asked.id, failed.id, stopped.id):
            assert client.wait(run_id, 20).status is RunStatus.COMPLETED
            assert "resent" not in types(client, run_id)


@pytest.mark.slow
def test_a_wait_that_is_over_is_handed_over_by_the_sweep(
    client: Client, settings: Settings
) -> None:
    with workers(1, settings, PERDURE_RETRY_DELAY_SECONDS="0.1"):
        late = client.submit("ledger", "g", {"rounds": 1}, not_before=0.5)
        again = client.submit("trouble", "g", {"times": 1})
        for run in (late, again):
            assert client.wait(run.id, 20).status is RunStatus.COMPLETED
            assert "resent" not in types(client, run.id)


@pytest.mark.slow
def test_a_round_given_back_by_a_warm_shutdown_is_handed_over_to_another(
    client: Client, settings: Settings
) -> None:
    with workers(1, settings) as [first]:
        run = client.submit("ledger", "g", {"rounds": 2, "seconds": 2.0})
        until(
            lambda: "progress" in (client._store.reads.fields(run.id) or {}),
            "the round to be under way",
        )
        with workers(1, settings):
            first.terminate()
            first.process.wait(20)
            assert client.wait(run.id, 30).answer == [0, 1]
    assert "lost" not in types(client, run.id)


@pytest.mark.slow
def test_messages_delivered_five_times_leave_the_log_exact(
    client: Client, settings: Settings
) -> None:
    with workers(2, settings, app="tests.support.apps.unreliable_broker", COPIES="4"):
        ids = [
            client.submit("ledger", "g", {"rounds": ROUNDS, "seconds": 0.02}).id for _ in range(10)
        ]
        for run_id in ids:
            client.wait(run_id, 60)
        until(
            lambda: min(faults(client, "delivered").values()) >= 5,
            "each to be delivered five times",
        )
    assert len(faults(client, "delivered")) >= 10 * (ROUNDS - 1)
    assert [run_id for run_id in ids if not exact(client, run_id, ROUNDS)] == []
    assert client._store.lists.counts()["due"] == 0


@pytest.mark.slow
def test_lost_messages_are_sent_again(client: Client, settings: Settings) -> None:
    impatient = Client(settings=settings.model_copy(update={"resend_seconds": 0.3}))
    with workers(
        2, settings, app="tests.support.apps.unreliable_broker", LOSE_SHARE="0.3", SEED="7"
    ):
        ids = [impatient.submit("ledger", "g", {"rounds": ROUNDS}).id for _ in range(6)]
        for run_id in ids:
            client.wait(run_id, 60)
    impatient.close()
    thrown = faults(client, "thrown")
    assert sum(thrown.values()) > 0
    assert [run_id for run_id in ids if not exact(client, run_id, ROUNDS)] == []
    resent = sum(types(client, run_id).count("resent") for run_id in ids)
    assert resent >= sum(thrown.values()) > 0, "each lost one was sent again"


@pytest.mark.slow
@elsewhere
def test_a_worker_killed_between_commit_and_publish_is_followed_by_the_next_round_all_the_same(
    client: Client, settings: Settings
) -> None:
    with (
        workers(1, settings, app="tests.support.apps.unreliable_broker", DIES_ONCE="here") as [
            first
        ],
        workers(1, settings),
    ):
        client._store.redis.hset(
            f"{settings.prefix}:test:died", "here", "not yet"
        )  # the sweep of `first` is spared
        ids = [
            client.submit("ledger", "g", {"rounds": ROUNDS, "seconds": 0.2}).id for _ in range(5)
        ]
        client._store.redis.hdel(f"{settings.prefix}:test:died", "here")
        until(lambda: first.process.poll() is not None, "the death of the first worker")
        for run_id in ids:
            client.wait(run_id, 60)
    assert all(exact(client, run_id, ROUNDS) for run_id in ids)
    died = str(client._store.redis.hget(f"{settings.prefix}:test:died", "here")).split()
    cut = types(client, died[0])
    assert "resent" in cut, "the round that was committed and not announced"


@pytest.mark.slow
@elsewhere
def test_a_client_that_knows_nothing_of_the_broker_is_told_by_the_doctor_and_loses_nothing(
    client: Client, settings: Settings
) -> None:
    mistaken = Client(settings=settings.model_copy(update={"broker_url": None}))
    with workers(1, settings):
        found = next(finding for finding in mistaken.doctor() if finding.check == "handover")
        assert (
            found.level.value == "warning"
            and "Give every process the same broker_url" in found.remedy
        )
        run = mistaken.submit("ledger", "g", {"rounds": 2})
        assert client.wait(run.id, 60).answer == [0, 1]
    mistaken.close()


@pytest.mark.slow
def test_why_places_a_run_in_line(client: Client, settings: Settings) -> None:
    with workers(1, settings, "--concurrency", "1"):
        first = client.submit("ledger", "g", {"rounds": 1, "seconds": 60})
        until(lambda: client.why(first.id).code is VerdictCode.LEASED, "the only slot to be taken")
        behind = [client.submit("ledger", "g", {"rounds": 1}) for _ in range(3)]
        verdicts = [client.why(run.id) for run in behind]
    assert {verdict.code for verdict in verdicts} == {VerdictCode.IN_LINE}
    assert [(verdict.details["position"], verdict.details["length"]) for verdict in verdicts] == [
        (1, 3),
        (2, 3),
        (3, 3),
    ]


def faults(client: Client, kind: str) -> dict[str, int]:
    """Count the faults of the worker of tests/support/apps/unreliable_broker.py, by round."""
    found: Any = client._store.redis.hgetall(f"{client.settings.prefix}:test:{kind}")
    return {key: int(count) for key, count in found.items()}
