"""retry_run: an errored run again, from the step that failed."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.worker.store import Claim, ClaimRefused, Store
from tests.support.runs import (
    LEASE,
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
    indexes,
    message,
    messages,
    new_run,
    pause_here,
    phase,
    resume,
    retry,
    stop,
    sweep_after,
    try_claim,
)


def errored(store: Store, **options: Any) -> None:
    new_run(store, **options)
    fail_round(store, claim(store), fatal=1)


def test_an_errored_run_is_taken_up_again_at_the_step_that_failed(store: Store) -> None:
    new_run(store)
    commit_next(store, claim(store))
    fail_round(store, claim(store), fatal=1)
    assert retry(store) == ["queued"]
    assert at(store) == (1, 1) and messages(store, "executor") == ["r/1/1"]
    assert indexes(store) == ["live"] and due(store) is not None
    assert_lawful(store)


def test_the_error_goes_to_the_history_and_leaves_the_state(store: Store) -> None:
    errored(store)
    retry(store)
    fields = hash_of(store)
    assert fields["status"] == "running" and not {"error", "ended_at"} & set(fields)
    assert (events(store)[-1]["type"], events(store)[-1]["error"]) == ("retried", "boom")


def test_a_retried_run_is_running_and_can_be_stopped(store: Store) -> None:
    errored(store)
    retry(store)
    assert stop(store)[0] == "stopped"


def test_the_bounds_start_anew_and_the_attempts_go_on(store: Store) -> None:
    errored(store)
    assert hash_of(store)["failures"] == "1"
    retry(store)
    fields = hash_of(store)
    assert (fields["failures"], fields["losses"]) == ("0", "0")
    assert claim(store).attempt == 2


def test_a_retry_keeps_the_keys_again(store: Store) -> None:
    errored(store, idempotency_key="k", content="c")
    keys = [store.keys.run("r"), store.keys.events("r"), store.keys.idempotency("k")]
    assert all(store.redis.pexpiretime(key) > 0 for key in keys)
    retry(store)
    assert [store.redis.pexpiretime(key) for key in keys] == [-1, -1, -1]


def test_a_message_of_the_old_epoch_is_stale_after_a_retry(store: Store) -> None:
    errored(store)
    retry(store)
    assert try_claim(store, epoch=0, step=0) == ClaimRefused("stale")


@pytest.mark.parametrize("state", ["queued", "leased", "interrupted", "stopped", "completed"])
def test_only_an_errored_run_is_retried(store: Store, state: str) -> None:
    new_run(store)
    match state:
        case "leased":
            claim(store)
        case "interrupted":
            pause_here(store, claim(store))
        case "stopped":
            stop(store)
        case "completed":
            commit_end(store, claim(store))
    log = events(store)
    assert retry(store) == ["running", state]
    assert phase(store) == state and events(store) == log and at(store)[0] == 0


def test_another_epoch_than_the_one_seen_answers_stale(store: Store) -> None:
    errored(store)
    before = everything(store)
    assert retry(store, epoch=3) == ["stale"]
    assert everything(store) == before


def test_a_retry_of_a_step_that_was_committed_since_is_stale(store: Store) -> None:
    """Its messages are of the step that failed when it was looked at, and no claim would ever fit
    them.
    """
    new_run(store)
    commit_next(store, claim(store))
    fail_round(store, claim(store), fatal=1)
    before = everything(store)
    assert store.runs.retry(
        "r", op="late", epoch=0, step=0, message=message("r", 1, 0), after=message("r", 2, 0)
    ) == ["stale"]
    assert everything(store) == before
    assert retry(store) == ["queued"]
    assert isinstance(try_claim(store), Claim)


def test_a_retry_repeated_gets_its_first_reply_and_changes_nothing(store: Store) -> None:
    errored(store)
    first = retry(store, "op")
    before = everything(store)
    assert retry(store, "op", epoch=0) == first
    assert everything(store) == before


def test_a_retry_resent_after_the_run_errored_again_does_not_start_it_again(store: Store) -> None:
    """retry, reply lost > the round errors again > retry re-sent."""
    errored(store)
    first = retry(store, "op", epoch=0)
    fail_round(store, claim(store), fatal=1)
    before = everything(store)
    assert retry(store, "op", epoch=0) == first
    assert everything(store) == before and phase(store) == "errored"


def test_a_retry_refused_as_running_and_resent_does_not_start_a_run_that_errored_later(
    store: Store,
) -> None:
    """retry of a running run: refused, reply lost > the round errors > retry re-sent."""
    new_run(store)
    granted = claim(store)
    first = retry(store, "op", epoch=0)
    fail_round(store, granted, fatal=1)
    assert retry(store, "op", epoch=0) == first == ["running", "leased"]
    assert phase(store) == "errored"


def test_a_question_that_was_open_when_the_run_errored_is_asked_again(store: Store) -> None:
    new_run(store, deadline=1_000)
    pause_here(store, claim(store))
    assert sweep_after(store, 1_000) == [("r", "errored")]
    assert retry(store) == ["interrupted"]
    assert messages(store) == []
    assert resume(store, answer="1") == ["queued"]
    assert messages(store) == ["r/2/0"]


def test_a_deadline_that_has_passed_is_taken_down_by_the_retry(store: Store) -> None:
    new_run(store, deadline=1_000)
    assert sweep_after(store, 1_000) == [("r", "errored")]
    assert "deadline" in hash_of(store)["error"]
    assert retry(store) == ["queued"]
    assert sweep_after(store, 100) == [] and "deadline" not in hash_of(store)


def test_a_deadline_that_is_still_to_come_stands(store: Store) -> None:
    errored(store, deadline=60_000)
    retry(store)
    assert "deadline" in hash_of(store)
    store.redis.delete(store.keys.queue("controller"))
    assert sweep_after(store, 60_000) == [("r", "errored")]


def test_a_run_that_errored_under_dead_workers_can_be_retried(store: Store) -> None:
    new_run(store)
    claim(store)
    assert sweep_after(store, LEASE, max_losses=0) == [("r", "errored")]
    assert retry(store) == ["queued"]
    assert commit_next(store, claim(store)) == ("ok", "continued")


def test_a_retry_of_no_run_is_missing(store: Store) -> None:
    assert store.runs.retry("nobody", op="o", epoch=0, step=0, message="m", after="a") == [
        "missing"
    ]
    assert everything(store) == {}


@pytest.mark.parametrize(("changed", "word"), [(False, "queued"), (True, "stale")])
def test_a_retry_with_fields_names_the_content_that_they_were_made_from(
    store: Store, changed: bool, word: str
) -> None:
    new_run(store)
    fail_round(store, claim(store), fatal=1)
    digest = "another" if changed else hash_of(store)["digest"]
    named: dict[str, Any] = {"message": "r/1/0", "after": "r/2/0", "digest": digest}
    assert store.runs.retry("r", op="o", epoch=0, step=0, **named) == [word]
