"""``why``: each code, produced by what it is about. Servers, workers and their deaths are real."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from perdure import AsyncClient, Client, RunNotFound, Settings, Verdict, VerdictCode
from perdure.flows import registry
from tests.conftest import StartsWorkers
from tests.support.command_line import CommandLine
from tests.support.flow_registry import own_registry
from tests.support.redis_servers import CrashableServer, server, until
from tests.support.workers import workers

FLOWS = ("tests.support.example_flows.rings", "tests.support.example_flows.unsafe_flows")
SLOW = {"rounds": 2, "seconds": 60}


@pytest.fixture
def settings(settings: Settings) -> Settings:
    # A module registers its flows once. A test with a registry of its own must not be the first.
    registry.load_modules(FLOWS)
    return settings.model_copy(update={"flow_modules": FLOWS})


def becomes(client: Client, run_id: str, code: VerdictCode) -> Verdict:
    """The verdict on the run once it has this code."""
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


def test_a_run_that_is_played_is_leased_and_the_one_behind_it_is_in_line(
    client: Client, worker_process: StartsWorkers
) -> None:
    worker = worker_process("--concurrency", "1")
    played = client.submit("ledger", "g", SLOW)
    verdict = becomes(client, played.id, VerdictCode.LEASED)
    assert verdict.details["owner"] == worker.name and just_now(verdict)
    assert worker.name is not None and worker.name in verdict.sentence
    assert seconds_until(verdict.details["last_beat"]) <= 1
    behind = [client.submit("ledger", "g", {"rounds": 1}) for _ in range(3)]
    verdicts = [client.why(run.id) for run in behind]
    assert {verdict.code for verdict in verdicts} == {VerdictCode.IN_LINE} and all(
        map(just_now, verdicts)
    )
    assert [(verdict.details["position"], verdict.details["lag"]) for verdict in verdicts] == [
        (1, 3),
        (2, 3),
        (3, 3),
    ]
    assert "number 3 of 3" in verdicts[2].sentence and worker.name in verdicts[2].sentence


@pytest.mark.slow
def test_a_run_far_back_is_placed_by_its_number_and_the_cursor(
    client: Client, worker_process: StartsWorkers
) -> None:
    worker_process("--concurrency", "1")
    played = client.submit("ledger", "g", SLOW)
    becomes(client, played.id, VerdictCode.LEASED)
    last = [client.submit("ledger", "g", {"rounds": 1}) for _ in range(300)][-1]
    verdict = client.why(last.id)
    assert verdict.code is VerdictCode.IN_LINE and (
        verdict.details["position"],
        verdict.details["length"],
    ) == (300, 300)


def test_a_place_counts_the_messages_that_are_there_not_the_numbers_given_out(
    client: Client, worker_process: StartsWorkers
) -> None:
    worker_process("--concurrency", "1")
    becomes(client, client.submit("ledger", "g", SLOW).id, VerdictCode.LEASED)
    gone, next_one, last = (client.submit("ledger", "g", {"rounds": 1}).id for _ in range(3))
    fields = client._store.fields(gone) or {}
    assert client._store.redis.lrem(fields["queue"], 1, fields["message"]) == 1
    assert [client.why(run_id).details["position"] for run_id in (next_one, last)] == [1, 2]


def test_a_stop_that_waits_for_its_round_is_told_with_the_lease(
    client: Client, worker_process: StartsWorkers
) -> None:
    worker_process()
    run = client.submit("deaf", "g", {"seconds": 30})
    becomes(client, run.id, VerdictCode.LEASED)
    client.request_stop(run.id)
    verdict = client.why(run.id)
    assert verdict.details["stop_requested"] and "--now" in verdict.sentence


def test_a_run_whose_round_failed_is_backing_off(
    client: Client, worker_process: StartsWorkers
) -> None:
    worker_process()
    run = client.submit("trouble", "g", {"retry_after": 600})
    verdict = becomes(client, run.id, VerdictCode.BACKING_OFF)
    assert "the service is busy" in verdict.sentence and just_now(verdict)
    assert 500 < seconds_until(verdict.details["until"]) < 700 and verdict.details["failures"] == 1


def test_a_run_with_a_start_time_is_sleeping(client: Client) -> None:
    verdict = client.why(client.submit("ledger", "g", {"rounds": 1}, not_before=3600).id)
    assert verdict.code is VerdictCode.SLEEPING and just_now(verdict)
    assert 3500 < seconds_until(verdict.details["until"]) < 3700


def test_an_interrupted_run_waits_for_a_person_and_says_for_what(
    client: Client, worker_process: StartsWorkers
) -> None:
    worker_process()
    forever, until_noon = (
        client.submit("asker", "g", {"deadline": deadline}) for deadline in (None, 600)
    )
    verdict = becomes(client, forever.id, VerdictCode.WAITING_FOR_A_PERSON)
    assert (
        "may I?" in verdict.sentence and verdict.details["deadline"] is None and just_now(verdict)
    )
    verdict = becomes(client, until_noon.id, VerdictCode.WAITING_FOR_A_PERSON)
    assert "deadline" in verdict.sentence and 500 < seconds_until(verdict.details["deadline"]) < 700


@pytest.mark.slow
def test_a_long_question_does_not_hide_what_to_do(
    client: Client, worker_process: StartsWorkers
) -> None:
    run = client.submit("question", "x" * 5_000)
    worker_process()
    verdict = becomes(client, run.id, VerdictCode.WAITING_FOR_A_PERSON)
    assert len(verdict.sentence) < 500 and f"perdure resume {run.id}" in verdict.sentence
    assert verdict.details["reason"] == "x" * 5_000


@pytest.mark.slow
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


def test_what_a_flow_lacks_on_the_live_workers_is_told(
    client: Client,
    settings: Settings,
    worker_process: StartsWorkers,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    own_registry(monkeypatch)
    registry.load_modules(["tests.support.example_flows.missing_requirements"])
    modules = {"PERDURE_FLOW_MODULES": "tests.support.example_flows.missing_requirements"}
    perdure = CommandLine(tmp_path, settings, **modules)
    early = perdure("submit", "lacking", "g").err
    assert "start one: perdure worker, but not on this machine: it needs perdure[magic]" in early
    log = tmp_path / "log"
    worker = worker_process(log=log, **modules)
    refused = "waits: flow 'lacking' cannot run here: it needs perdure[magic]; it is offered"
    until(lambda: refused in log.read_text(), "the refusal")
    told = perdure("submit", "lacking", "g").err
    assert f"can run the flow lacking yet; {worker.name}: it needs perdure[magic]" in told
    run = client.submit("lacking", "g")
    verdict = becomes(client, run.id, VerdictCode.UNKNOWN_FLOW)
    assert "it needs perdure[magic]" in verdict.sentence
    verdict = becomes(client, client.submit("lacking_shell", "g").id, VerdictCode.FLOW_NOT_ENABLED)
    assert f"{worker.name} could not run it either: it needs perdure[magic])" in verdict.sentence
    assert "--enable lacking_shell" in verdict.sentence
    found = {finding.check: finding for finding in client.doctor()}["flows-loaded"]
    assert found.level.value == "warning" and "perdure[magic]" in found.sentence


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_flow_that_no_worker_has_enabled_is_told_apart_from_one_that_none_knows(
    client: Client, worker_process: StartsWorkers
) -> None:
    worker = worker_process(PERDURE_FLOW_MODULES=",".join(FLOWS))
    run = client.submit("shelling", "g")
    verdict = becomes(client, run.id, VerdictCode.FLOW_NOT_ENABLED)
    assert (
        verdict.details["workers"] == [worker.name]
        and "--enable shelling" in verdict.sentence
        and just_now(verdict)
    )
    worker.kill()  # else it might take the message again and again
    worker_process(PERDURE_FLOW_MODULES=",".join(FLOWS), PERDURE_ENABLED_FLOWS="shelling")
    assert client.wait(run.id, 20).answer == "played"


@pytest.mark.slow
def test_a_run_that_the_wrong_worker_took_is_offered_again(
    client: Client, worker_process: StartsWorkers
) -> None:
    """The one that knows its flow is busy; the other one has just taken its message."""
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


def test_without_a_worker_of_the_role_it_is_told_which_one_to_start(
    client: Client, settings: Settings, worker_process: StartsWorkers
) -> None:
    run = client.submit("ledger", "g", {"rounds": 1})
    verdict = client.why(run.id)
    assert (
        verdict.code is VerdictCode.NO_WORKER
        and verdict.details["workers"] == []
        and just_now(verdict)
    )
    worker = worker_process("--queues", f"{settings.prefix}.executor")
    verdict = client.why(run.id)
    assert verdict.code is VerdictCode.NO_WORKER and verdict.details["workers"] == [worker.name]
    assert "perdure worker --role controller" in verdict.sentence


@pytest.mark.slow
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


def test_a_run_of_a_paused_flow_says_who_paused_it_before_and_after_it_is_held(
    client: Client, worker_process: StartsWorkers
) -> None:
    client.pause_flow("ledger", "the service is down", "ann")
    run = client.submit("ledger", "g", {"rounds": 1})
    verdict = client.why(run.id)
    assert verdict.code is VerdictCode.FLOW_PAUSED and verdict.details["phase"] == "queued"
    worker_process()
    until(lambda: client.get(run.id).phase == "waiting", "the run to be held")
    verdict = client.why(run.id)
    assert (
        verdict.code is VerdictCode.FLOW_PAUSED
        and "ann" in verdict.sentence
        and "the service is down" in verdict.sentence
    )
    assert just_now(verdict) and "perdure flows unpause ledger" in verdict.sentence
    client.unpause_flow("ledger")
    assert client.wait(run.id, 20).answer == [0]


@pytest.mark.slow
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
    )  # one that sweeps, and plays nothing of this
    with workers(2, settings, **quick):
        run = client.submit("killer", "g")
        verdict = becomes(client, run.id, VerdictCode.LOSSES)
    assert (
        verdict.details["losses"] == 2
        and "2 times in a row" in verdict.sentence
        and just_now(verdict)
    )
    assert seconds_until(verdict.details["until"]) < 60


@pytest.mark.slow
def test_a_damaged_run_is_quarantined_and_says_what_is_wrong_before_any_worker_has_looked(
    client: Client, worker_process: StartsWorkers
) -> None:
    run = client.submit("ledger", "g", {"rounds": 1}, interrupt_before=["Controller"])
    client._store.redis.hset(client._store.keys.run(run.id), "goal", "another one")
    verdict = client.why(run.id)
    assert verdict.code is VerdictCode.QUARANTINED and "digest" in verdict.sentence
    worker_process()
    client.resume(run.id)
    until(lambda: client.get(run.id).status.ended, "its end")
    verdict = client.why(run.id)
    assert (
        verdict.code is VerdictCode.QUARANTINED
        and "digest" in verdict.sentence
        and just_now(verdict)
    )


def test_a_run_that_the_sweep_let_go_of_is_quarantined(client: Client) -> None:
    run = client.submit("ledger", "g", {"rounds": 1}, not_before=3600)
    client._store.redis.zrem(client._store.keys.due, run.id)
    verdict = client.why(run.id)
    assert verdict.code is VerdictCode.QUARANTINED
    assert (
        "the sweep" in verdict.sentence
        and f"perdure stop {run.id} and perdure delete {run.id}" in verdict.sentence
    )
    client.request_stop(run.id)
    client.delete(run.id)


@pytest.mark.slow
def test_a_lost_message_is_told_with_the_time_when_it_is_sent_again(
    client: Client, worker_process: StartsWorkers
) -> None:
    worker_process("--concurrency", "1")
    becomes(client, client.submit("ledger", "g", SLOW).id, VerdictCode.LEASED)
    run = client.submit("ledger", "g", {"rounds": 1})
    fields = client._store.fields(run.id) or {}
    assert client._store.redis.lrem(fields["queue"], 1, fields["message"]) == 1
    verdict = client.why(run.id)
    assert verdict.code is VerdictCode.IN_LINE and verdict.details["position"] == 0
    verdict = becomes(client, run.id, VerdictCode.MESSAGE_LOST)
    assert 0 < seconds_until(verdict.details["sent_again"]) <= 2 and just_now(verdict)
    verdict = becomes(client, run.id, VerdictCode.IN_LINE)
    assert verdict.details["position"] == 1


@pytest.mark.slow
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
            until > before and int((client._store.fields(run.id) or {}).get("beat_at", "0")) > until
        )

    until(has_beaten_since, "a beat after the silence")
    assert client.why(run.id).code is VerdictCode.LEASED  # at once: whoever beats is not silent


def silent_until(client: Client) -> int:
    found: Any = client._store.redis.hget(client._store.keys.queues, "silent_until")
    return int(found or 0)


@pytest.mark.slow
def test_workers_that_have_never_swept_are_silent_too(
    client: Client, worker_process: StartsWorkers
) -> None:
    worker_process(PERDURE_SWEEP_SECONDS="100000")
    run = client.submit("ledger", "g", SLOW)
    verdict = becomes(client, run.id, VerdictCode.SERVER_SILENT)
    assert "No worker has swept" in verdict.sentence and just_now(verdict)


@pytest.fixture
def own_server() -> Iterator[CrashableServer]:
    with server("valkey", "everysec") as running:
        yield running


@pytest.mark.slow
def test_a_lease_that_lapsed_in_the_servers_silence_is_told_as_spared(
    own_server: CrashableServer,
) -> None:
    # A lease is spared once: this machine may stall by itself for the time that is left until then, and be no second silence.
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
        # First the worker: a beat of its that the server had not read yet when it stood still would count as one after the silence.
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


def test_a_run_that_has_ended_says_how(client: Client, worker_process: StartsWorkers) -> None:
    worker_process()
    completed = client.submit("ledger", "g", {"rounds": 1})
    errored = client.submit("trouble", "g", {"kind": "fatal"})
    stopped = client.submit("ledger", "g", SLOW)
    client.request_stop(stopped.id, mode="now", reason="enough", requested_by="ann")
    for run, status, words in (
        (completed, "completed", "show"),
        (errored, "errored", "this can never work"),
        (stopped, "stopped", "by ann (enough)"),
    ):
        verdict = becomes(client, run.id, VerdictCode.ENDED)
        assert (
            verdict.details["status"] == status and words in verdict.sentence and just_now(verdict)
        )


async def _why(settings: Settings, run_id: str) -> Verdict:
    client = AsyncClient(settings=settings)
    try:
        return await client.why(run_id)
    finally:
        await client.close()


@pytest.mark.slow
def test_the_command_and_the_async_client_say_the_same(
    client: Client, settings: Settings, tmp_path: Path
) -> None:
    import asyncio

    run = client.submit("ledger", "g", {"rounds": 1}, not_before=3600)
    perdure = CommandLine(tmp_path, settings)
    told = perdure("why", run.id, "--json").json
    assert (
        told["code"] == "sleeping"
        and told["since"] == run.updated_at.isoformat()
        and told["details"]["run"] == run.id
    )
    assert asyncio.run(_why(settings, run.id)).to_dict()["since"] == told["since"]
    text = perdure("why", run.id).out
    assert "sleeping" in text and "start time" in text and "since:" in text
    unknown = perdure("why", "nobody")
    assert unknown.code == 3 and "nobody" in unknown.err
    with pytest.raises(RunNotFound):
        client.why("nobody")
