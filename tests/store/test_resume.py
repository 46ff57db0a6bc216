"""resume_run: an answer names its question, and a resume names the epoch and step that its sender
saw.
"""

from __future__ import annotations

import pytest

from perdure.worker.store import Claim, ClaimRefused, Store
from tests.support.runs import (
    START,
    assert_lawful,
    at,
    claim,
    commit_end,
    commit_next,
    due,
    events,
    everything,
    fail_round,
    hash_of,
    later,
    message,
    messages,
    new_run,
    pause_here,
    pause_next,
    phase,
    resume,
    stop,
    submit,
    sweep_after,
    try_claim,
)


def asking(store: Store, **fields: str) -> None:
    new_run(store)
    pause_here(store, claim(store), **fields)


def test_an_answer_takes_the_run_into_the_next_epoch(store: Store) -> None:
    asking(store)
    assert resume(store, answer='"yes"') == ["queued"]
    fields = hash_of(store)
    assert (fields["epoch"], fields["step"], fields["status"], fields["i_answer"]) == (
        "1",
        "0",
        "running",
        '"yes"',
    )
    assert not {"interrupted_node", "interrupt_reason", "interrupt_data"} & set(fields)
    assert messages(store) == ["r/1/0"] == [fields["message"]]
    assert_lawful(store)


def test_resume_keeps_the_step_and_the_attempt(store: Store) -> None:
    asking(store)
    resume(store, answer="1")
    granted = claim(store)
    assert (at(store), granted.attempt) == ((1, 0), 2)


def test_resuming_a_boundary_runs_the_next_node_and_not_the_last_again(store: Store) -> None:
    new_run(store)
    pause_next(store, claim(store), "Executor", "after")
    assert hash_of(store)["interrupt_reason"] == "interrupt_after: Controller"
    resume(store)
    assert messages(store, "executor") == ["r/1/1"]
    assert claim(store).fields["current_node"] == "Executor"


def test_a_message_of_the_old_epoch_is_stale_after_a_resume(store: Store) -> None:
    new_run(store)
    stop(store)
    resume(store)
    assert messages(store) == ["r/0/0", "r/1/0"]
    assert try_claim(store, epoch=0, step=0) == ClaimRefused("stale")
    assert isinstance(try_claim(store, epoch=1, step=0), Claim)


@pytest.mark.parametrize("epoch", [1, 7])
def test_another_epoch_than_the_one_seen_answers_stale(store: Store, epoch: int) -> None:
    asking(store)
    before = everything(store)
    assert resume(store, epoch=epoch, answer="1") == ["stale"]
    assert everything(store) == before


def test_a_resume_of_a_step_that_was_committed_since_is_stale(store: Store) -> None:
    """Looked at while the round was in flight and a stop asked for: its messages are of the old
    step, and no claim would ever fit them.
    """
    new_run(store)
    granted = claim(store)
    stop(store)
    seen = hash_of(store)
    assert commit_next(store, granted) == ("ok", "stopped")
    before = everything(store)
    late = {
        "epoch": 0,
        "step": int(seen["step"]),
        "message": message("r", 1, 0),
        "after": message("r", 2, 0),
    }
    assert store.runs.resume("r", op="late", **late) == ["stale"]
    assert everything(store) == before
    assert resume(store) == ["queued"]
    assert isinstance(try_claim(store), Claim)


def test_the_second_of_two_answers_is_stale(store: Store) -> None:
    asking(store)
    interrupt = hash_of(store)["i_id"]
    assert resume(store, "ann", epoch=0, interrupt=interrupt, answer='"yes"') == ["queued"]
    before = everything(store)
    assert resume(store, "bob", epoch=0, interrupt=interrupt, answer='"no"') == ["stale"]
    assert everything(store) == before


@pytest.mark.parametrize("interrupt", [None, "0:1", "9:9", ""])
def test_an_answer_to_another_question_is_stale(store: Store, interrupt: str | None) -> None:
    asking(store)
    log = events(store)
    assert resume(store, interrupt=interrupt, answer="1") == ["stale"]
    assert (phase(store), at(store), events(store)) == ("interrupted", (0, 0), log)


def test_a_resent_answer_does_not_answer_the_next_question(store: Store) -> None:
    """answer, reply lost > the round asks again > the answer re-sent."""
    asking(store)
    seen = hash_of(store)
    first = resume(store, "op", epoch=0, interrupt=seen["i_id"], answer='"yes"')
    pause_here(store, claim(store))
    before = everything(store)
    assert resume(store, "op", epoch=0, interrupt=seen["i_id"], answer='"yes"') == first
    assert everything(store) == before and phase(store) == "interrupted"
    assert resume(store, "other", epoch=0, interrupt=seen["i_id"], answer='"yes"') == ["stale"]


def test_a_resume_repeated_gets_its_first_reply_also_when_others_came_in_between(
    store: Store,
) -> None:
    new_run(store)
    stop(store, op="s1")
    first = resume(store, "r1")
    for number in range(2, 6):
        stop(store, op=f"s{number}")
        resume(store, f"r{number}")
    stop(store, op="s9")
    before = everything(store)
    assert resume(store, "r1", epoch=0) == first == ["queued"]
    assert everything(store) == before and phase(store) == "stopped"


def test_the_last_sixteen_operations_are_remembered(store: Store) -> None:
    new_run(store)
    for number in range(8):
        stop(store, op=f"s{number}")
        resume(store, f"r{number}")
    ops = [line.split()[0] for line in hash_of(store)["ops"].split("\n")]
    assert ops == [f"{kind}{number}" for number in range(8) for kind in "sr"]
    before = everything(store)
    assert stop(store, op="s0")[0] == "stopped"
    assert everything(store) == before
    resume(store, "r8")
    ops = [line.split()[0] for line in hash_of(store)["ops"].split("\n")]
    assert len(ops) == 16 and (ops[0], ops[-1]) == ("r0", "r8")


def test_a_stopped_run_with_an_open_interrupt_asks_again_deadline_rearmed(store: Store) -> None:
    """stop > resume skips the approval."""
    asking(store, i_wait="30000", i_default='"no"')
    later(store, 20_000)
    stop(store)
    later(store, 1_000_000)
    assert resume(store) == ["interrupted"]
    fields = hash_of(store)
    assert (fields["phase"], fields["status"], fields["epoch"]) == (
        "interrupted",
        "interrupted_before",
        "1",
    )
    assert "i_answer" not in fields and messages(store) == []
    assert due(store) == START + 1_020_000 + 30_000
    assert fields["message"] == "r/2/0", (
        "a pause with a deadline stores the message of the next epoch"
    )
    assert_lawful(store)


def test_a_resume_that_answers_nothing_need_not_name_the_open_interrupt(store: Store) -> None:
    asking(store)
    stop(store)
    assert resume(store, interrupt=None) == ["interrupted"]


def test_an_answer_to_a_question_asked_again_is_taken(store: Store) -> None:
    asking(store)
    stop(store)
    resume(store, "r1")
    assert resume(store, "r2", answer='"yes"') == ["queued"]
    assert messages(store) == ["r/2/0"] and claim(store).fields["i_answer"] == '"yes"'


def test_an_answer_from_before_the_stop_is_stale_after_the_question_was_asked_again(
    store: Store,
) -> None:
    asking(store)
    seen = hash_of(store)
    stop(store)
    resume(store, "r1")
    assert resume(store, "late", epoch=0, interrupt=seen["i_id"], answer='"yes"') == ["stale"]
    assert phase(store) == "interrupted"


def test_a_stopped_run_may_be_resumed_with_the_answer(store: Store) -> None:
    asking(store)
    stop(store)
    assert resume(store, answer='"yes"') == ["queued"]
    assert claim(store).fields["i_answer"] == '"yes"'


def test_a_stopped_run_that_was_answered_before_goes_on(store: Store) -> None:
    asking(store)
    resume(store, "r1", answer='"yes"')
    stop(store)
    assert resume(store, "r2") == ["queued"]
    assert claim(store).fields["i_answer"] == '"yes"'


def test_an_answer_given_before_a_stop_is_not_given_again(store: Store) -> None:
    asking(store)
    resume(store, "r1", answer='"yes"')
    stop(store)
    assert resume(store, "r2", answer='"no"') == ["queued"]
    assert claim(store).fields["i_answer"] == '"yes"'


def test_a_stop_after_a_resume_is_seen_anew(store: Store) -> None:
    new_run(store)
    granted = claim(store)
    stop(store, op="s1")
    store.rounds.extend([("r", granted.token, "")])
    commit_next(store, granted)
    resume(store)
    granted = claim(store)
    later(store, 50)
    assert stop(store, op="s2")[3] == "0", "nobody has seen it yet"
    store.rounds.extend([("r", granted.token, "")])
    assert hash_of(store)["stop_seen_at"] == str(START + 50)


def test_resume_takes_the_stop_down(store: Store) -> None:
    new_run(store)
    claim(store)
    stop(store, "now")
    later(store, 60_000)
    resume(store)
    fields = hash_of(store)
    assert fields["stop_current_execution"] == "none" and fields["status"] == "running"
    assert (
        not {
            name
            for name in fields
            if name.startswith(("stop_by", "stop_mode", "stop_asked", "stopped"))
        }
        and "in_doubt" not in fields
    )
    assert commit_next(store, claim(store)) == ("ok", "continued")


@pytest.mark.parametrize("state", ["queued", "leased", "stop pending", "waiting"])
def test_a_run_that_still_runs_is_not_resumed(store: Store, state: str) -> None:
    new_run(store)
    if state != "queued":
        granted = claim(store)
        if state == "stop pending":
            stop(store)
        if state == "waiting":
            fail_round(store, granted)
    status = hash_of(store)["phase"]
    assert resume(store) == ["running"]
    assert phase(store) == status and at(store) == (0, 0)


def test_an_ended_run_is_not_resumed(store: Store) -> None:
    new_run(store, "done")
    commit_end(store, claim(store, "done"))
    new_run(store, "broken")
    fail_round(store, claim(store, "broken"), fatal=1)
    assert resume(store, run_id="done") == ["finished", "completed"]
    assert resume(store, run_id="broken") == ["finished", "errored"]
    assert (phase(store, "done"), phase(store, "broken")) == ("completed", "errored")


def test_a_resume_refused_as_running_and_resent_does_not_undo_a_later_stop(store: Store) -> None:
    """resume of a running run: refused, reply lost > stop > resume re-sent."""
    new_run(store)
    first = resume(store, "op", epoch=0)
    stop(store)
    assert resume(store, "op", epoch=0) == first == ["running"]
    assert phase(store) == "stopped"


def test_a_resume_refused_as_stale_and_resent_does_not_undo_a_later_stop(store: Store) -> None:
    """resume by one who saw no question: refused, reply lost > stop > resume re-sent."""
    asking(store)
    first = resume(store, "op", epoch=0, interrupt=None)
    stop(store)
    assert resume(store, "op", epoch=0, interrupt=None) == first == ["stale"]
    assert phase(store) == "stopped"


def test_resume_resets_the_bounds(store: Store) -> None:
    new_run(store)
    fail_round(store, claim(store))
    sweep_after(store, 1_000)
    claim(store)
    sweep_after(store, 60_000)
    stop(store)
    assert (hash_of(store)["failures"], hash_of(store)["losses"]) == ("1", "1")
    resume(store)
    assert (hash_of(store)["failures"], hash_of(store)["losses"]) == ("0", "0")


def test_resume_waits_for_the_start_time_that_was_asked_for(store: Store) -> None:
    new_run(store, phase="waiting", delay=60_000)
    stop(store)
    assert resume(store) == ["waiting"]
    assert due(store) == START + 60_000 and messages(store) == []


def test_a_run_interrupted_at_its_start_begins_when_answered(store: Store) -> None:
    assert submit(store, phase="interrupted") == ("ok", "r")
    assert resume(store) == ["queued"]
    assert messages(store) == ["r/1/0"]
    assert commit_next(store, claim(store)) == ("ok", "continued")


def test_a_resume_is_told_to_those_who_follow_the_events(store: Store) -> None:
    asking(store)
    resume(store, answer='{"ok":true}')
    assert events(store)[-1]["type"] == "resumed" and events(store)[-1]["answer"] == '{"ok":true}'


def test_a_resume_of_no_run_is_missing(store: Store) -> None:
    assert store.runs.resume("nobody", op="o", epoch=0, step=0, message="m", after="a") == [
        "missing"
    ]
    assert everything(store) == {}


def test_a_resume_writes_the_fields_given_with_it_and_tells_of_them(store: Store) -> None:
    asking(store, i_kind="budget")
    seen = hash_of(store)
    given = {
        "fields": {"budgets": '{"tokens":30}', "digest": "new"},
        "digest": seen["digest"],
        "data": '{"added":{"tokens":20}}',
    }
    assert resume(store, **given) == ["queued"]
    fields = claim(store).fields
    assert (fields["budgets"], fields["digest"], fields["i_answer"]) == (
        '{"tokens":30}',
        "new",
        "null",
    )
    assert events(store, kind="resumed")[-1]["data"] == '{"added":{"tokens":20}}'


def test_a_repeated_resume_writes_its_fields_once(store: Store) -> None:
    """resume that raises a budget, reply lost > the round asks again > it is raised once more > the
    first one re-sent.
    """
    asking(store)
    seen = hash_of(store)
    given = {
        "fields": {"budgets": "1", "digest": "d1"},
        "digest": seen["digest"],
        "interrupt": seen["i_id"],
    }
    first = resume(store, "op", epoch=0, **given)
    pause_here(store, claim(store))
    resume(store, "other", fields={"budgets": "2", "digest": "d2"}, digest="d1")
    before = everything(store)
    assert resume(store, "op", epoch=0, **given) == first == ["queued"]
    assert everything(store) == before and hash_of(store)["budgets"] == "2"


def test_fields_made_from_other_content_than_is_there_are_refused_as_stale(store: Store) -> None:
    """Looked at while a round was in flight > it failed, and was charged for > stopped: the digest
    vouches for the old charge.
    """
    asking(store)
    before = hash_of(store)
    assert resume(store, "late", fields={"budgets": "9", "digest": "d9"}, digest="another") == [
        "stale"
    ]
    assert {name: text for name, text in hash_of(store).items() if name != "ops"} == before


@pytest.mark.parametrize(
    ("state", "told"), [("queued", "running"), ("answered", "stale"), ("completed", "finished")]
)
def test_a_resume_that_is_refused_writes_none_of_its_fields(
    store: Store, state: str, told: str
) -> None:
    asking(store)
    seen = hash_of(store)
    resume(store, "first", answer="1")
    if state == "completed":
        commit_end(store, claim(store))
    epoch = 0 if state == "answered" else None
    assert (
        resume(
            store,
            "late",
            epoch=epoch,
            fields={"budgets": "9", "digest": "d9"},
            digest=seen["digest"],
        )[0]
        == told
    )
    assert "budgets" not in hash_of(store) and hash_of(store)["digest"] == seen["digest"]


@pytest.mark.parametrize(("ms", "expected"), [(999, "waiting"), (1_000, "queued")])
def test_a_run_resumed_at_its_start_time_waits_no_longer(
    store: Store, ms: int, expected: str
) -> None:
    new_run(store, phase="waiting", delay=1_000)
    stop(store)
    later(store, ms)
    assert resume(store) == [expected]
