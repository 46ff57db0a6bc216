"""``why`` about workers and servers that die, stand still or differ: they are processes.

The other codes are in tests/run/runs/test_why.py.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from perdure import Client, Settings, Verdict, VerdictCode
from perdure.flows.rounds import registry
from tests.conftest import StartsWorkers
from tests.support.redis_servers import CrashableServer, server, until
from tests.support.workers import workers

pytestmark = pytest.mark.slow
FLOWS = ("tests.support.example_flows.rings", "tests.support.example_flows.unsafe_flows")
SLOW = {"rounds": 2, "seconds": 60}


@pytest.fixture
def settings(settings: Settings) -> Settings:
    # A module registers its flows once. A test with a registry of its own must not be the first.
    registry.load_modules(FLOWS)
    return settings.model_copy(update={"flow_modules": FLOWS})


def becomes(client: Client, run_id: str, code: VerdictCode) -> Verdict:
    """Return the run's verdict once it has this code."""
    found: list[Verdict] = []

    def holds() -> bool:
        found.append(client.why(run_id))
        return found[-1].code is code

    try:
        until(holds, f"the verdict {code.value}")
    except AssertionError as error:
        raise AssertionError(f"{error}; the last one was {found[-1]}") from None
    return found[-1]


def just_now(verdict: Verdict) -> bool:
    return verdict.since is not None and abs(datetime.now(UTC) - verdict.since) < timedelta(
        minutes=1
    )


def seconds_until(moment: Any) -> float:
    return (datetime.fromisoformat(moment) - datetime.now(UTC)).total_seconds()


def test_a_run_resumed_while_its_fenced_round_goes_on_is_held(
    client: Client, worker_process: StartsWorkers
) -> None:
    worker_process(PERDURE_LEASE_SECONDS="30")
    run = client.submit("deaf", "g", {"seconds": 60})
    becomes(client, run.id, VerdictCode.LEASED)
    client.request_stop(run.id, mode="now")
    client.resume(run.id)
    verdict = client.why(run.id)
    assert verdict.code is VerdictCode.HELD_AFTER_STOP_NOW and just_now(verdict)
    assert 0 < seconds_until(verdict.details["until"]) <= 30


def test_a_flow_that_no_worker_knows_is_told_before_and_after_a_worker_has_tried(
    client: Client, worker_process: StartsWorkers, settings: Settings
) -> None:
    worker = worker_process(PERDURE_FLOW_MODULES="")
    run = client.submit("ledger", "g", {"rounds": 1})
    verdict = becomes(client, run.id, VerdictCode.UNKNOWN_FLOW)
    found = [verdict]
    while verdict.details["phase"] != "waiting":  # the worker has refused it
        found.append(verdict := client.why(run.id))
    assert {each.code for each in found} == {VerdictCode.UNKNOWN_FLOW}
    assert (
        verdict.details["workers"] == [worker.name]
        and "'ledger'" in verdict.sentence
        and verdict.since == client.get(run.id).created_at  # and not since the last refusal
    )
    worker.kill()  # else it might take the message again and again
    with workers(1, settings):
        client.wait(run.id, 20)


def test_a_run_that_the_wrong_worker_took_is_offered_again(
    client: Client, worker_process: StartsWorkers
) -> None:
    """The worker that knows its flow is busy; the other one has just taken its message."""
    knows = worker_process("--concurrency", "1")
    becomes(client, client.submit("ledger", "g", SLOW).id, VerdictCode.LEASED)
    worker_process("--concurrency", "1", PERDURE_FLOW_MODULES="")
    run = client.submit("ledger", "g", {"rounds": 1})
    until(
        lambda: any(event.type == "handed_on" for event in client.events(run.id, follow=False)),
        "the message to be handed on",
    )
    verdict = client.why(run.id)
    assert (
        verdict.code is VerdictCode.IN_LINE
        and knows.name is not None
        and knows.name in verdict.sentence
    )


def test_a_run_that_outlived_all_workers_says_which_one_played_it(
    client: Client, settings: Settings
) -> None:
    quick = settings.model_copy(update={"heartbeat_seconds": 0.1, "lease_seconds": 1.0})
    with workers(1, quick, PERDURE_HEARTBEAT_SECONDS="0.1", PERDURE_LEASE_SECONDS="1") as [worker]:
        run = client.submit("ledger", "g", SLOW)
        becomes(client, run.id, VerdictCode.LEASED)
        name = worker.name
    watching = Client(settings=quick)
    verdict = becomes(watching, run.id, VerdictCode.NO_WORKER)
    watching.close()
    assert (
        name is not None
        and f"the last heartbeat of {name} was" in verdict.sentence
        and verdict.details["phase"] == "leased"
    )


@pytest.mark.timeout(180)
def test_a_run_that_keeps_killing_its_workers_says_so(
    client: Client, settings: Settings, worker_process: StartsWorkers
) -> None:
    quick = {
        "PERDURE_HEARTBEAT_SECONDS": "0.2",
        "PERDURE_LEASE_SECONDS": "1",
        "PERDURE_FLOW_MODULES": ",".join(FLOWS),
    }
    worker_process(
        "--queues", f"{settings.prefix}.executor", **quick
    )  # a worker that sweeps, and plays none of these flows
    with workers(2, settings, **quick):
        run = client.submit("killer", "g")
        verdict = becomes(client, run.id, VerdictCode.LOSSES)
    assert (
        verdict.details["losses"] == 2
        and "2 times in a row" in verdict.sentence
        and just_now(verdict)
    )
    assert seconds_until(verdict.details["until"]) < 60


def test_when_nobody_sweeps_although_workers_were_there_just_now_the_silence_is_told(
    client: Client, worker_process: StartsWorkers
) -> None:
    worker = worker_process()
    run = client.submit("ledger", "g", SLOW)
    becomes(client, run.id, VerdictCode.LEASED)
    until(
        lambda: bool(client._store.redis.hexists(client._store.keys.queues, "swept_at")), "a sweep"
    )
    os.killpg(worker.process.pid, signal.SIGSTOP)
    verdict = becomes(client, run.id, VerdictCode.SERVER_SILENT)
    assert (
        "No worker has swept" in verdict.sentence
        and verdict.details["silent_until"] is None
        and just_now(verdict)
    )
    before = silent_until(client)  # the first sweep of all ended a silence, too
    os.killpg(worker.process.pid, signal.SIGCONT)

    def has_beaten_since() -> bool:
        until = silent_until(client)
        return (
            until > before
            and int((client._store.reads.fields(run.id) or {}).get("beat_at", "0")) > until
        )

    until(has_beaten_since, "a beat after the silence")
    assert client.why(run.id).code is VerdictCode.LEASED  # at once: its heartbeat goes on


def silent_until(client: Client) -> int:
    found: Any = client._store.redis.hget(client._store.keys.queues, "silent_until")
    return int(found or 0)


@pytest.fixture
def own_server() -> Iterator[CrashableServer]:
    with server("valkey", "everysec") as running:
        yield running


def test_a_lease_that_lapsed_in_the_servers_silence_is_told_as_spared(
    own_server: CrashableServer,
) -> None:
    # A lease is spared once: this machine may stall by itself for the time that is left until then,
    # and be no second silence.
    lease = {"PERDURE_LEASE_SECONDS": "8"}
    settings = Settings(redis_url=own_server.url, prefix="why", flow_modules=FLOWS, lease_seconds=8)
    client = Client(settings=settings)
    with (
        workers(1, settings, **lease) as [victim],
        workers(1, settings, "--queues", "why.executor", **lease),
    ):
        run = client.submit("ledger", "g", SLOW)
        becomes(client, run.id, VerdictCode.LEASED)
        pid = own_server.pid
        assert pid is not None
        # First the worker: a beat of its that the server had not read yet when it stood still would
        # count as one after the silence.
        victim.kill()
        client.why(run.id)
        os.kill(pid, signal.SIGSTOP)
        silence = datetime.now(UTC)
        until(
            lambda: datetime.now(UTC) - silence > timedelta(seconds=8.5),
            "more than a lease to pass",
        )
        os.kill(pid, signal.SIGCONT)
        verdict = becomes(client, run.id, VerdictCode.SERVER_SILENT)
        until(
            lambda: client.why(run.id).details.get("silent_until") is not None,
            "the sweep to have noticed",
        )
        verdict = client.why(run.id)
        assert (
            "extended once" in verdict.sentence and just_now(verdict) and verdict.details["owner"]
        )
        becomes(client, run.id, VerdictCode.NO_WORKER)  # the lease was spared once, not for ever
    client.close()
