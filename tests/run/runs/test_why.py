"""``why``: each code of a verdict, produced by the state that it is about."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from perdure import AsyncClient, Client, RunNotFound, Settings, Verdict, VerdictCode
from perdure.flows.rounds import registry
from tests.support.command_line import CommandLine
from tests.support.flow_registry import own_registry
from tests.support.redis_servers import until
from tests.support.round_driver import LASTING, Driver, driving, playing
from tests.support.runs import handed_on

FLOWS = ("tests.support.example_flows.rings", "tests.support.example_flows.unsafe_flows")
SLOW = {"rounds": 2, "seconds": 60}


@pytest.fixture
def settings(settings: Settings) -> Settings:
    # A module registers its flows once. A test with a registry of its own must not be the first.
    registry.load_modules(FLOWS)
    return settings.model_copy(update={"flow_modules": FLOWS, **LASTING})


@pytest.fixture
def worker(settings: Settings) -> Iterator[Driver]:
    """A one-slot worker in threads of this process."""
    with playing(settings) as made:
        yield made


@pytest.fixture
def driver(settings: Settings) -> Iterator[Driver]:
    """A worker that plays a round only when the test says so."""
    with driving(settings) as made:
        made.sweeper_of_a_worker().announce()
        yield made


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


def test_a_run_that_is_played_is_leased_and_the_one_behind_it_is_in_line(
    client: Client, worker: Driver
) -> None:
    played = client.submit("ledger", "g", SLOW)
    verdict = becomes(client, played.id, VerdictCode.LEASED)
    assert verdict.details["owner"] == worker.name and just_now(verdict)
    assert worker.name in verdict.sentence
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


@pytest.mark.usefixtures("worker")
def test_a_run_far_back_is_placed_by_its_number_and_the_cursor(client: Client) -> None:
    played = client.submit("ledger", "g", SLOW)
    becomes(client, played.id, VerdictCode.LEASED)
    last = [client.submit("ledger", "g", {"rounds": 1}) for _ in range(300)][-1]
    verdict = client.why(last.id)
    assert verdict.code is VerdictCode.IN_LINE and (
        verdict.details["position"],
        verdict.details["length"],
    ) == (300, 300)


@pytest.mark.usefixtures("worker")
def test_a_place_counts_the_messages_that_are_there_not_the_numbers_given_out(
    client: Client,
) -> None:
    becomes(client, client.submit("ledger", "g", SLOW).id, VerdictCode.LEASED)
    gone, next_one, last = (client.submit("ledger", "g", {"rounds": 1}).id for _ in range(3))
    fields = client._store.reads.fields(gone) or {}
    assert client._store.redis.lrem(fields["queue"], 1, fields["message"]) == 1
    assert [client.why(run_id).details["position"] for run_id in (next_one, last)] == [1, 2]


@pytest.mark.usefixtures("worker")
def test_a_stop_that_waits_for_its_round_is_told_with_the_lease(client: Client) -> None:
    run = client.submit("ledger", "g", SLOW)
    becomes(client, run.id, VerdictCode.LEASED)
    client.request_stop(run.id)
    verdict = client.why(run.id)
    assert verdict.details["stop_requested"] and "--now" in verdict.sentence


def test_a_run_whose_round_failed_is_backing_off(client: Client, driver: Driver) -> None:
    run = client.submit("trouble", "g", {"retry_after": 600})
    driver.play()
    verdict = client.why(run.id)
    assert verdict.code is VerdictCode.BACKING_OFF
    assert "the service is busy" in verdict.sentence and just_now(verdict)
    assert 500 < seconds_until(verdict.details["until"]) < 700 and verdict.details["failures"] == 1


def test_a_run_with_a_start_time_is_sleeping(client: Client) -> None:
    verdict = client.why(client.submit("ledger", "g", {"rounds": 1}, not_before=3600).id)
    assert verdict.code is VerdictCode.SLEEPING and just_now(verdict)
    assert 3500 < seconds_until(verdict.details["until"]) < 3700


def test_an_interrupted_run_waits_for_a_person_and_says_for_what(
    client: Client, driver: Driver
) -> None:
    forever, until_noon = (
        client.submit("asker", "g", {"deadline": deadline}) for deadline in (None, 600)
    )
    driver.play()
    verdict = becomes(client, forever.id, VerdictCode.WAITING_FOR_A_PERSON)
    assert (
        "may I?" in verdict.sentence and verdict.details["deadline"] is None and just_now(verdict)
    )
    verdict = becomes(client, until_noon.id, VerdictCode.WAITING_FOR_A_PERSON)
    assert "deadline" in verdict.sentence and 500 < seconds_until(verdict.details["deadline"]) < 700


def test_a_long_question_does_not_hide_what_to_do(client: Client, driver: Driver) -> None:
    run = client.submit("question", "x" * 5_000)
    driver.play()
    verdict = client.why(run.id)
    assert verdict.code is VerdictCode.WAITING_FOR_A_PERSON
    assert len(verdict.sentence) < 500 and f"perdure resume {run.id}" in verdict.sentence
    assert verdict.details["reason"] == "x" * 5_000


def test_what_a_flow_lacks_on_the_live_workers_is_told(
    client: Client,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    own_registry(monkeypatch)
    module = "tests.support.example_flows.missing_requirements"
    registry.load_modules([module])
    perdure = CommandLine(tmp_path, settings, PERDURE_FLOW_MODULES=module)
    early = perdure("submit", "lacking", "g").err
    assert "start one: perdure worker, but not on this machine: it needs perdure[magic]" in early
    with driving(settings.model_copy(update={"flow_modules": (module,)})) as worker:
        worker.sweeper_of_a_worker().announce()
        worker.play()
    refused = "waits: flow 'lacking' cannot run here: it needs perdure[magic]; it is offered"
    assert refused in caplog.text
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


def test_a_flow_that_no_worker_has_enabled_is_told_apart_from_one_that_none_knows(
    client: Client, settings: Settings, driver: Driver
) -> None:
    run = client.submit("shelling", "g")
    driver.play()
    verdict = client.why(run.id)
    assert verdict.code is VerdictCode.FLOW_NOT_ENABLED
    assert (
        verdict.details["workers"] == [driver.name]
        and "--enable shelling" in verdict.sentence
        and just_now(verdict)
    )
    with driving(settings.model_copy(update={"enabled_flows": ("shelling",)})) as other:
        assert other.play_to_rest(run.id).answer == "played"


def test_without_a_worker_of_the_role_it_is_told_which_one_to_start(
    client: Client, settings: Settings
) -> None:
    run = client.submit("ledger", "g", {"rounds": 1})
    verdict = client.why(run.id)
    assert (
        verdict.code is VerdictCode.NO_WORKER
        and verdict.details["workers"] == []
        and just_now(verdict)
    )
    with driving(settings) as worker:
        worker.sweeper_of_a_worker("executor").announce()
    verdict = client.why(run.id)
    assert verdict.code is VerdictCode.NO_WORKER and verdict.details["workers"] == [worker.name]
    assert "perdure worker --role controller" in verdict.sentence


def test_a_run_of_a_paused_flow_says_who_paused_it_before_and_after_it_is_held(
    client: Client, driver: Driver
) -> None:
    client.pause_flow("ledger", "the service is down", "ann")
    run = client.submit("ledger", "g", {"rounds": 1})
    verdict = client.why(run.id)
    assert verdict.code is VerdictCode.FLOW_PAUSED and verdict.details["phase"] == "queued"
    driver.play()
    assert client.get(run.id).phase == "waiting", "it is held"
    verdict = client.why(run.id)
    assert (
        verdict.code is VerdictCode.FLOW_PAUSED
        and "ann" in verdict.sentence
        and "the service is down" in verdict.sentence
    )
    assert just_now(verdict) and "perdure flows unpause ledger" in verdict.sentence
    client.unpause_flow("ledger")
    assert driver.play_to_rest(run.id).answer == [0]


def test_a_damaged_run_is_quarantined_and_says_what_is_wrong_before_any_worker_has_looked(
    client: Client, driver: Driver
) -> None:
    run = client.submit("ledger", "g", {"rounds": 1}, interrupt_before=["Controller"])
    client._store.redis.hset(client._store.keys.run(run.id), "goal", "another one")
    verdict = client.why(run.id)
    assert verdict.code is VerdictCode.QUARANTINED and "digest" in verdict.sentence
    client.resume(run.id)
    driver.play_to_rest(run.id)
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


@pytest.mark.usefixtures("worker")
def test_a_lost_message_is_told_with_the_time_when_it_is_sent_again(client: Client) -> None:
    becomes(client, client.submit("ledger", "g", SLOW).id, VerdictCode.LEASED)
    run = client.submit("ledger", "g", {"rounds": 1})
    fields = client._store.reads.fields(run.id) or {}
    assert client._store.redis.lrem(fields["queue"], 1, fields["message"]) == 1
    verdict = client.why(run.id)
    assert verdict.code is VerdictCode.IN_LINE and verdict.details["position"] == 0
    verdict = becomes(client, run.id, VerdictCode.MESSAGE_LOST)
    assert 0 < seconds_until(verdict.details["sent_again"]) <= 2 and just_now(verdict)
    verdict = becomes(client, run.id, VerdictCode.IN_LINE)
    assert verdict.details["position"] == 1


def test_workers_that_have_never_swept_are_silent_too(settings: Settings) -> None:
    # Silence is noticed after half a lease, when the worker still counts as alive.
    with driving(settings.model_copy(update={"lease_seconds": 1.0})) as worker:
        worker.sweeper_of_a_worker().announce()
        run = worker.client.submit("ledger", "g", SLOW)
        verdict = becomes(worker.client, run.id, VerdictCode.SERVER_SILENT)
    assert "No worker has swept" in verdict.sentence and just_now(verdict)


def test_a_run_that_has_ended_says_how(client: Client, driver: Driver) -> None:
    completed = client.submit("ledger", "g", {"rounds": 1})
    errored = client.submit("trouble", "g", {"kind": "fatal"})
    stopped = client.submit("ledger", "g", SLOW)
    client.request_stop(stopped.id, mode="now", reason="enough", requested_by="ann")
    driver.play()
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


def test_the_command_and_the_async_client_say_the_same(
    client: Client, settings: Settings, tmp_path: Path
) -> None:
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


def test_a_run_that_was_handed_on_is_counted_in_the_queue_that_it_waits_in(client: Client) -> None:
    _, [*_, last] = handed_on(client, 3)
    client.submit("ledger", "behind", {"rounds": 1})
    verdict = client.why(last)
    assert verdict.code is VerdictCode.IN_LINE
    assert (verdict.details["position"], verdict.details["length"]) == (3, 3)
    assert "It is number 3 of 3 that wait for them." in verdict.sentence


def test_a_wait_that_is_over_says_that_no_worker_plays_the_run(
    client: Client, settings: Settings, tmp_path: Path
) -> None:
    run = client.submit("ledger", "g", {"rounds": 1})
    with pytest.raises(
        TimeoutError, match=r"is still queued at step 0 after 0 s: .*no live worker"
    ):
        client.wait(run.id, 0)
    told = CommandLine(tmp_path, settings)("wait", run.id, "--timeout", "0")
    assert "no live worker" in told.err
