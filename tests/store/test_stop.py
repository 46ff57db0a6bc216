"""request_stop: a run without a round is stopped here and now; a run in a round, after it or by
fencing it.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from perdure.worker.store import Claim, ClaimRefused, Store
from tests.support.runs import (
    LEASE,
    START,
    assert_lawful,
    at,
    claim,
    commit,
    commit_end,
    commit_next,
    due,
    events,
    everything,
    fail_round,
    hash_of,
    indexes,
    later,
    messages,
    new_run,
    pause_here,
    phase,
    resume,
    retry,
    stop,
    sweep_after,
    take,
    try_claim,
)

MODES = ("graceful", "now")


def queued(store: Store) -> None:
    new_run(store)


def waiting(store: Store) -> None:
    new_run(store)
    fail_round(store, claim(store))


def interrupted(store: Store) -> None:
    new_run(store)
    pause_here(store, claim(store), i_wait="1000", i_default="1")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("state", [queued, waiting, interrupted])
def test_a_run_that_nobody_holds_is_stopped_inside_the_request(
    store: Store, state: Callable[[Store], None], mode: str
) -> None:
    state(store)
    assert stop(store, mode)[:2] == ["stopped", "stopped"]
    fields = hash_of(store)
    assert (fields["phase"], fields["stop_current_execution"], fields["in_doubt"]) == (
        "stopped",
        "stopped",
        "",
    )
    assert (fields["status"], fields["interrupt_reason"]) == ("interrupted_after", "stop_requested")
    assert due(store) is None and indexes(store) == ["stopped"]
    assert (events(store)[-1]["type"], events(store)[-1]["by"], events(store)[-1]["reason"]) == (
        "stopped",
        "ann",
        "enough",
    )
    assert_lawful(store)


def test_a_stopped_run_does_not_tell_what_it_waited_for(store: Store) -> None:
    waiting(store)
    stop(store)
    assert not {"waiting_for", "waiting_until"} & set(hash_of(store))


def test_graceful_asks_a_round_in_flight_and_lets_it_finish(store: Store) -> None:
    new_run(store)
    granted = claim(store)
    before = hash_of(store)
    assert stop(store) == ["asked", "leased", str(START), "0", "0", "0", "-"]
    fields = hash_of(store)
    assert (fields["phase"], fields["stop_current_execution"]) == ("leased", "stop_requested")
    assert (fields["token"], fields["lease_until"]) == (
        before["token"],
        before["lease_until"],
    ) and due(store) == START + LEASE
    assert [event["type"] for event in events(store)] == ["submitted", "stop_requested"]
    assert commit_next(store, granted) == ("ok", "stopped")


def test_the_stop_flag_is_a_field_of_its_own_that_a_rounds_result_cannot_overwrite(
    store: Store,
) -> None:
    new_run(store)
    granted = claim(store)
    stop(store)
    assert granted.fields["stop_current_execution"] == "none", (
        "what the round read is older than the stop"
    )
    assert commit_next(store, granted) == ("ok", "stopped")


def test_now_fences_the_round_and_the_run_is_stopped_when_the_call_returns(store: Store) -> None:
    new_run(store)
    granted = claim(store)
    assert stop(store, "now") == [
        "stopped",
        "stopped",
        str(START),
        "0",
        str(START),
        "0",
        "0/Controller/1",
    ]
    fields = hash_of(store)
    assert fields["phase"] == "stopped" and due(store) is None
    assert fields["in_doubt"] == "0/Controller/1", "step, node and attempt are recorded as in doubt"
    assert events(store)[-1]["in_doubt"] == "0/Controller/1"
    assert fields["held_token"] == granted.token and fields["held_until"] == str(START + LEASE)
    assert not {"owner", "claim_id", "lease_until"} & set(fields)
    assert_lawful(store)


@pytest.mark.parametrize("kind", ["next", "end", "failed", "give_back"])
def test_after_stop_now_nothing_is_committed(store: Store, kind: str) -> None:
    new_run(store)
    granted = claim(store)
    stop(store, "now")
    step, log = at(store), events(store)
    options = (
        {"message": "r/0/1"}
        if kind == "next"
        else {"error": "boom", "delay": 1, "max_failures": 3}
        if kind == "failed"
        else {}
    )
    assert commit(store, granted, kind, **options) == ("fenced", "")
    assert (at(store), events(store)) == (step, log) and phase(store) == "stopped"


def test_now_may_follow_graceful(store: Store) -> None:
    new_run(store)
    claim(store)
    stop(store, "graceful", "one")
    later(store, 50)
    assert stop(store, "now", "two")[:3] == ["stopped", "stopped", str(START)], (
        "asked first when graceful asked"
    )
    assert hash_of(store)["stop_mode"] == "now"


def test_a_second_graceful_stop_keeps_who_asked_first(store: Store) -> None:
    new_run(store)
    claim(store)
    store.runs.request_stop("r", op="one", mode="graceful", by="ann", reason="enough")
    later(store, 50)
    assert store.runs.request_stop("r", op="two", mode="graceful", by="bob", reason="me too")[
        :3
    ] == [
        "asked",
        "leased",
        str(START),
    ]
    fields = hash_of(store)
    assert (fields["stop_by"], fields["stop_reason"], fields["stop_asked_at"]) == (
        "ann",
        "enough",
        str(START),
    )
    assert len(events(store, kind="stop_requested")) == 1


def test_graceful_never_softens_now(store: Store) -> None:
    new_run(store)
    claim(store)
    stop(store, "now", "one")
    assert stop(store, "graceful", "two")[:2] == ["finished", "stopped"]
    assert hash_of(store)["stop_mode"] == "now" and phase(store) == "stopped"


@pytest.mark.parametrize("mode", MODES)
def test_a_run_that_has_ended_answers_finished_with_its_status(store: Store, mode: str) -> None:
    new_run(store, "done")
    commit_end(store, claim(store, "done"))
    new_run(store, "broken")
    fail_round(store, claim(store, "broken"), fatal=1)
    log = events(store, "done")
    assert stop(store, mode, run_id="done")[:2] == ["finished", "completed"]
    assert stop(store, mode, run_id="broken")[:2] == ["finished", "errored"]
    assert (phase(store, "done"), phase(store, "broken"), events(store, "done")) == (
        "completed",
        "errored",
        log,
    )


def test_a_stop_for_no_run_is_missing(store: Store) -> None:
    assert stop(store) == ["missing"]
    assert everything(store) == {}


def test_after_an_acknowledged_stop_no_claim_is_granted(store: Store) -> None:
    new_run(store)
    stop(store)
    assert take(store) == "r/0/0"
    assert try_claim(store) == ClaimRefused("finished", "stopped")


def test_after_graceful_at_most_one_commit_and_no_claim(store: Store) -> None:
    new_run(store)
    granted = claim(store)
    stop(store)
    assert try_claim(store) == ClaimRefused("leased")
    commit_next(store, granted)
    assert not isinstance(try_claim(store), Claim)
    assert len(events(store, kind="committed")) == 1
    assert sweep_after(store, 100 * LEASE) == [] and messages(store, "executor") == []


def test_a_graceful_stop_whose_worker_dies_is_ended_by_the_sweep_with_the_round_in_doubt(
    store: Store,
) -> None:
    new_run(store)
    claim(store)
    stop(store)
    assert sweep_after(store, LEASE) == [("r", "stopped")]
    assert hash_of(store)["in_doubt"] == "0/Controller/1"
    assert hash_of(store)["losses"] == "0"
    assert_lawful(store)


def test_a_stop_keeps_an_open_interrupt(store: Store) -> None:
    interrupted(store)
    stop(store)
    assert hash_of(store)["i_id"] == "0:0" and due(store) is None


def test_a_resume_before_the_hold_ends_makes_the_run_wait(store: Store) -> None:
    """stop now > resume > two workers in one step."""
    new_run(store)
    claim(store)
    stop(store, "now")
    later(store, 1_000)
    assert resume(store) == ["waiting"]
    assert (
        hash_of(store)["waiting_for"] == "hold"
        and due(store) == START + LEASE
        and messages(store) == []
    )
    assert try_claim(store) == ClaimRefused("early", "waiting")
    assert sweep_after(store, LEASE - 1_000) == [("r", "woken")]
    assert messages(store) == ["r/1/0"] and "held_token" not in hash_of(store)
    assert claim(store).attempt == 2


def test_the_late_commit_ends_the_wait_of_a_resumed_run(store: Store) -> None:
    new_run(store)
    granted = claim(store)
    stop(store, "now")
    resume(store)
    assert commit_next(store, granted) == ("fenced", "")
    assert due(store) == START
    assert sweep_after(store, 0) == [("r", "woken")]
    assert claim(store).fields["epoch"] == "1"


def test_the_late_commit_of_the_held_token_ends_no_other_wait(store: Store) -> None:
    """stop now > resume, waits for the hold > stop > not answered > resumed before the start time:
    it waits for that.
    """
    new_run(store, phase="waiting", delay=1_000)
    sweep_after(store, 1_000)
    granted = claim(store)
    stop(store, "now")
    store.redis.hset(
        store.keys.run("r"), mapping={"held_until": START, "not_before": START + 60_000}
    )
    assert resume(store) == ["waiting"] and hash_of(store)["waiting_for"] == "start"
    assert commit_next(store, granted) == ("fenced", "")
    assert due(store) == START + 60_000


def test_a_resume_after_the_hold_has_ended_is_queued(store: Store) -> None:
    new_run(store)
    claim(store)
    stop(store, "now")
    later(store, LEASE)
    assert resume(store) == ["queued"]


def test_stop_and_resume_while_held_waits_again(store: Store) -> None:
    new_run(store)
    claim(store)
    stop(store, "now", "s1")
    resume(store, "r1")
    assert stop(store, "graceful", "s2")[0] == "stopped"
    assert resume(store, "r2") == ["waiting"]
    assert due(store) == START + LEASE


def test_a_retry_before_the_hold_ends_waits_as_well(store: Store) -> None:
    """stop now > resume, waits for the hold > the run's deadline passes > retry > two workers in
    one step.
    """
    new_run(store, deadline=2_000)
    claim(store)
    stop(store, "now")
    resume(store)
    assert sweep_after(store, 2_000) == [("r", "errored")]
    assert retry(store) != ["queued"]
    assert not isinstance(try_claim(store, owner="w2"), Claim), (
        "w1 holds this step until its lease has ended"
    )


@pytest.mark.parametrize("mode", MODES)
def test_a_stop_repeated_gets_its_first_reply_and_changes_nothing(store: Store, mode: str) -> None:
    new_run(store)
    claim(store)
    first = stop(store, mode)
    before = everything(store)
    later(store, 10)
    assert stop(store, mode) == first
    assert everything(store) == before


def test_a_stop_resent_after_the_round_ended_gets_its_first_reply(store: Store) -> None:
    new_run(store)
    granted = claim(store)
    first = stop(store)
    commit_end(store, granted)
    before = everything(store)
    assert stop(store) == first
    assert everything(store) == before


def test_a_stop_resent_after_a_resume_does_not_stop_the_resumed_run(store: Store) -> None:
    """stop, reply lost > resume > stop re-sent."""
    new_run(store)
    first = stop(store)
    resume(store)
    before = everything(store)
    assert stop(store) == first
    assert everything(store) == before and phase(store) == "queued"


def test_a_stop_refused_as_finished_and_resent_after_a_retry_does_not_stop_the_run(
    store: Store,
) -> None:
    new_run(store)
    fail_round(store, claim(store), fatal=1)
    first = stop(store)
    retry(store)
    before = everything(store)
    assert stop(store) == first
    assert everything(store) == before


def test_stop_against_finish_agrees_with_the_replies(store: Store) -> None:
    """Whichever script comes first wins, and each reply says which."""
    for run_id, stop_first in (("a", True), ("b", False)):
        new_run(store, run_id)
        granted = claim(store, run_id)
        if stop_first:
            assert stop(store, "now", run_id=run_id)[0] == "stopped"
            assert commit_end(store, granted) == ("fenced", "")
            assert phase(store, run_id) == "stopped"
        else:
            assert commit_end(store, granted) == ("ok", "completed")
            assert stop(store, "now", run_id=run_id)[:2] == ["finished", "completed"]
            assert phase(store, run_id) == "completed"
