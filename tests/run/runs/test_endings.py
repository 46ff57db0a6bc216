"""How runs end: at a missing node, at their last cycle, after a pause behind their last node."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from perdure import (
    Client,
    ExecutionState,
    ExecutionStatus,
    InvalidInput,
    InvalidTransition,
    Node,
    RemoteClient,
    Run,
    RunStatus,
    Settings,
)
from perdure.worker.cli.views.follow import end_code
from tests.support.command_line import CommandLine
from tests.support.example_flows.ends_and_pauses import FETCHED, Relay
from tests.support.page_visitor import Visitor
from tests.support.prometheus import scrape
from tests.support.runs import hash_of, indexes
from tests.support.runs_in_every_status import play
from tests.support.threaded_server import serving


def test_a_run_whose_next_node_is_gone_and_that_shall_not_wait_errors_and_names_the_nodes_there_are(
    client: Client, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = client.submit("relay", "g", interrupt_before=["Report"])
    play(settings, run.id)
    assert client.get(run.id).status is RunStatus.INTERRUPTED
    monkeypatch.setattr(Relay, "on_misfit", "end")
    monkeypatch.setattr(Relay, "topology", (Node("Fetch", "fetch"), Node("Reporting", "report")))
    client.resume(run.id)
    play(settings, run.id)
    ended = client.get(run.id)
    assert ended.status is RunStatus.ERRORED and ended.error is not None
    assert all(
        word in ended.error
        for word in (run.id, "'Report'", "'relay'", "Fetch, Reporting", f"perdure retry {run.id}")
    )
    assert ended.details["losses"] == 0 and ended.details["attempt"] == 1
    monkeypatch.undo()
    client.retry(run.id)
    play(settings, run.id)
    assert client.get(run.id).answer == "reported", "the node is back, and the run goes on there"


def test_a_retry_after_bad_replies_begins_their_count_anew(
    client: Client, settings: Settings
) -> None:
    run = client.submit("misunderstood", "g")
    for retried in range(2):
        play(settings, run.id)
        ended = client.get(run.id)
        assert (
            ended.status is RunStatus.ERRORED
            and ended.error is not None
            and "3 bad replies" in ended.error
        )
        assert ended.state.step == 2 * (retried + 1), (
            "two became turns, and the third ended the run"
        )
        client.retry(run.id)
    assert hash_of(client._store, run.id)["v:_bad_replies"] == "0"


@pytest.fixture(autouse=True)
def nothing_fetched() -> None:
    FETCHED.clear()


def test_a_run_that_used_up_its_cycles_is_not_finished_and_goes_on_where_it_stopped_when_it_is_given_more(
    client: Client, settings: Settings
) -> None:
    run = client.submit("pager", "g", {"pages": 4}, max_rounds=2, idempotency_key="once")
    play(settings, run.id)
    ended = client.get(run.id)
    assert (ended.status, ended.finished, ended.output["status"]) == (
        RunStatus.COMPLETED,
        False,
        "unfinished",
    )
    assert ended.status_text == "unfinished after 2 of 2 cycles" and ended.details[
        "unfinished"
    ] == {"cycles": 2, "of": 2}
    assert ended.state.current_node == "Controller" and ended.to_dict()["finished"] is False
    assert Run.from_dict(ended.to_dict()) == ended and "model" not in ended.answer
    assert (
        next(event for event in client.events(run.id) if event.type == "completed").data[
            "unfinished"
        ]
        == "2"
    )
    for wrong in ({"answer": "yes"}, {"add": {"tokens": 5}}, {}):
        with pytest.raises(InvalidTransition, match=f"perdure resume {run.id} --add cycles=2"):
            client.resume(run.id, **wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="whole number"):
        client.resume(run.id, add={"cycles": 1.5})
    live = client.resume(run.id, add={"cycles": 1})
    assert (live.status, live.answer, live.output, live.finished) == (
        RunStatus.RUNNING,
        None,
        {},
        False,
    )
    keys = [client._store.keys.run(run.id), client._store.keys.idempotency("once")]
    assert [client._store.redis.ttl(key) for key in keys] == [-1, -1], (
        "a run that goes on does not expire, nor does its key"
    )
    assert indexes(client._store, run.id) == ["live"]
    play(settings, run.id)
    assert client.get(run.id).status_text == "unfinished after 3 of 3 cycles"
    client.resume(run.id, add={"cycles": 5})
    play(settings, run.id)
    done = client.get(run.id)
    assert (done.answer, done.finished, done.status_text, FETCHED) == (
        "4 pages",
        True,
        "completed",
        [0, 1, 2, 3],
    )
    assert indexes(client._store, run.id) == ["completed"] and "unfinished" not in hash_of(
        client._store, run.id
    )
    assert client._store.redis.hget(client._store.keys.queues, "moves:unfinished:pager") == "2"
    with pytest.raises(InvalidTransition):
        client.resume(run.id)


def test_a_plain_flow_tells_as_well_that_it_used_up_its_cycles(
    client: Client, settings: Settings
) -> None:
    run = client.submit("plain_loop", "g", budgets={"cycles": 2})
    play(settings, run.id)
    ended = client.get(run.id)
    assert (ended.status_text, ended.output) == (
        "unfinished after 2 of 2 cycles",
        {"n": 2, "status": "unfinished"},
    )
    client.resume(run.id, add={"cycles": 1})
    play(settings, run.id)
    assert (client.get(run.id).output["n"], client.get(run.id).details["budgets"]) == (
        3,
        {"cycles": 3},
    )


def test_a_run_that_a_person_left_unfinished_is_not_finished() -> None:
    state = ExecutionState(current_node="Controller", status=ExecutionStatus.COMPLETED)
    now = datetime.now(UTC)
    left = Run(
        "r",
        "f",
        "g",
        {},
        RunStatus.COMPLETED,
        state,
        "bye",
        {"status": "unfinished"},
        None,
        now,
        now,
        {},
        "completed",
        {},
    )
    assert (left.finished, left.status_text, end_code(left)) == (False, "unfinished", 4)
    done = replace(left, output={"status": "finished"})
    assert (done.finished, done.status_text, end_code(done)) == (True, "completed", 0)


def test_a_run_that_was_given_more_cycles_after_its_deadline_is_not_ended_by_it(
    client: Client, settings: Settings
) -> None:
    run = client.submit("pager", "g", {"pages": 2}, max_rounds=1, deadline=timedelta(hours=1))
    play(settings, run.id)
    client._store.redis.hset(client._store.keys.run(run.id), "deadline", client._store.time() - 1)
    client.resume(run.id, add={"cycles": 5})
    play(settings, run.id)
    assert client.get(run.id).finished and "deadline" not in client.get(run.id).details


def test_the_command_line_tells_an_unfinished_run_from_a_finished_one(
    client: Client, settings: Settings, tmp_path: Path
) -> None:
    run, done, never = (
        client.submit("pager", "g", {"pages": 2}, max_rounds=limit).id for limit in (1, None, None)
    )
    for run_id in (run, done):
        play(settings, run_id)
    command = CommandLine(tmp_path, settings)
    for words in ("watch", "wait"):
        seen = command(words, run)
        assert seen.code == 4 and f"perdure resume {run} --add cycles=1" in seen.out
        assert command(words, done).code == 0
    late = command("wait", never, "--timeout", "0")
    assert late.code == 9 and never in late.err
    listed = {line.split("\t")[0]: line.split("\t")[1] for line in command("list").out.splitlines()}
    assert (listed[run], listed[done]) == ("unfinished after 1 of 1 cycle", "completed")
    assert "status: unfinished after 1 of 1 cycle" in command("show", run).out
    assert [command("show", each, "--json").json["finished"] for each in (run, done)] == [
        False,
        True,
    ]
    went_on = command("resume", run, "--add", "cycles=5")
    assert went_on.code == 0 and "continues at step" in went_on.out


def test_the_control_room_shows_an_unfinished_run_and_lets_it_go_on(
    client: Client, settings: Settings
) -> None:
    run = client.submit("pager", "g", {"pages": 2}, max_rounds=1)
    play(settings, run.id)
    with serving(settings) as url, Visitor(url) as visitor:
        for path in ("/runs", f"/runs/{run.id}"):
            page = visitor.see(path)
            assert (
                "unfinished after 1 of 1 cycle" in page.text
                and 'class="status unfinished"' in page.html
            )
        told = json.loads(visitor.see(f"/api/v1/runs/{run.id}").html)
        assert (told["status"], told["finished"], told["details"]["unfinished"]) == (
            "completed",
            False,
            {"cycles": 1, "of": 1},
        )
        visitor.send(visitor.see(f"/runs/{run.id}"), f"/runs/{run.id}/resume")
        play(settings, run.id)
        assert client.get(run.id).status_text == "unfinished after 2 of 2 cycles"
        with closing(RemoteClient(url)) as remote:
            assert remote.resume(run.id, add={"cycles": 3}).finished is False
            play(settings, run.id)
            assert remote.get(run.id).finished and remote.get(run.id).answer == "2 pages"


def test_runs_that_used_up_their_cycles_have_a_count_of_their_own(
    client: Client, settings: Settings
) -> None:
    for limit in (1, 5):
        play(settings, client.submit("pager", "g", {"pages": 1}, max_rounds=limit).id)
    told = scrape(client)
    assert told.value("perdure_runs_unfinished_total", flow="pager") == 1
    assert told.value("perdure_runs_ended_total", flow="pager", status="completed") == 2


def paused_at_its_end(client: Client, settings: Settings, **options: Any) -> str:
    """Return a run of one page that pauses behind the node that ended it."""
    run_id = client.submit("pager", "g", {"pages": 1}, interrupt_after=["Controller"], **options).id
    play(settings, run_id)
    client.resume(run_id)
    play(settings, run_id)
    paused = client.get(run_id)
    assert (paused.status, paused.state.interrupt_reason) == (
        RunStatus.INTERRUPTED,
        "interrupt_after: Controller",
    )
    assert paused.state.step == 3 and (paused.answer, paused.output, paused.finished) == (
        None,
        {},
        False,
    )
    return run_id


def test_a_run_pauses_behind_the_node_that_ends_it_and_completes_when_it_is_resumed_without_playing_it_again(
    client: Client, settings: Settings, tmp_path: Path
) -> None:
    run_id = paused_at_its_end(client, settings)
    command = CommandLine(tmp_path, settings)
    assert "answer" not in command("show", run_id).out and command("wait", run_id).code == 6
    with pytest.raises(InvalidTransition, match="after node Controller"):
        client.resume(run_id, "yes")
    resumed = command("resume", run_id)
    assert resumed.code == 0 and "has completed" in resumed.out
    done = client.get(run_id)
    assert (done.answer, done.finished, done.state.step, done.state.interrupt_reason) == (
        "1 pages",
        True,
        3,
        None,
    )
    assert [event.type for event in client.events(run_id)][-2:] == ["resumed", "completed"]
    assert len([event for event in client.events(run_id) if event.type == "committed"]) == 3, (
        "nothing was played again"
    )
    assert client._store.redis.ttl(client._store.keys.run(run_id)) > 0 and indexes(
        client._store, run_id
    ) == ["completed"]


def test_a_ring_pauses_behind_its_last_node_too(client: Client, settings: Settings) -> None:
    run = client.submit("relay", "g", interrupt_after=["Report"])
    play(settings, run.id)
    assert (client.get(run.id).status, client.get(run.id).output) == (RunStatus.INTERRUPTED, {})
    assert client.resume(run.id).output == {"answer": "reported", "status": "finished"}


def test_a_run_that_is_stopped_or_overdue_at_its_end_asks_again_before_it_completes(
    client: Client, settings: Settings
) -> None:
    stopped = paused_at_its_end(client, settings)
    client.request_stop(stopped, mode="now")
    assert (client.get(stopped).status, client.get(stopped).answer) == (RunStatus.STOPPED, None)
    overdue = paused_at_its_end(client, settings, deadline=timedelta(hours=1))
    run_key = client._store.keys.run(overdue)
    client._store.redis.hset(run_key, "deadline", client._store.time() - 1)
    client._store.redis.zadd(client._store.keys.due, {overdue: 1})
    client._store.fleet.sweep(lease=4_000, max_losses=3, jitter=0.0)
    assert (client.get(overdue).status, client.get(overdue).answer) == (RunStatus.ERRORED, None)
    client.retry(overdue)
    client.resume(stopped)
    for run_id in (stopped, overdue):
        assert client.get(run_id).status is RunStatus.INTERRUPTED, "nobody has looked yet"
        assert client.resume(run_id).answer == "1 pages"


def test_the_last_allowed_cycle_pauses_too_and_may_be_given_more_instead_of_ending(
    client: Client, settings: Settings
) -> None:
    ends, goes_on = (
        client.submit("pager", "g", {"pages": 2}, interrupt_after=["Executor"], max_rounds=1).id
        for _ in range(2)
    )
    for run_id in (ends, goes_on):
        play(settings, run_id)
        assert client.get(run_id).state.interrupt_reason == "interrupt_after: Executor"
    assert client.resume(ends).status_text == "unfinished after 1 of 1 cycle"
    client.resume(goes_on, add={"cycles": 2})
    play(settings, goes_on)
    client.resume(goes_on)
    play(settings, goes_on)
    assert client.get(goes_on).answer == "2 pages" and client.get(goes_on).finished


def test_a_run_at_its_end_that_a_client_of_the_last_release_resumed_completes_without_playing_its_node(
    client: Client, settings: Settings
) -> None:
    run_id = paused_at_its_end(client, settings)
    key = client._store.keys.run(run_id)
    client._store.redis.hdel(key, "ending")  # such a client knows nothing of it
    assert client.resume(run_id).status is RunStatus.RUNNING
    client._store.redis.hset(key, "ending", "1")
    play(settings, run_id)
    assert (client.get(run_id).answer, FETCHED) == ("1 pages", [0])
