"""record_once: in a step the first result of a name stands, from any recorder, and every attempt
gets it.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from perdure.worker.store import Claim, Store
from tests.support.round_ends import ENDS
from tests.support.runs import (
    LEASE,
    RETENTION,
    START,
    claim,
    commit_end,
    commit_next,
    everything,
    fail_round,
    hash_of,
    later,
    new_run,
    pause_next,
    phase,
    stop,
    submit,
    sweep_after,
)


def record(
    store: Store,
    granted: Claim,
    name: str = "charge",
    value: str = '"done"',
    artifact: str | None = None,
) -> tuple[str, str]:
    """Record a result as the round that was granted."""
    fields = granted.fields
    return store.rounds.record_result(
        fields["id"],
        nonce=fields["nonce"],
        step=int(fields["step"]),
        name=name,
        value=value,
        artifact=artifact,
    )


def recorded(store: Store) -> Claim:
    """Make a run whose round has recorded a result."""
    new_run(store)
    granted = claim(store)
    assert record(store, granted) == ("ok", '"done"')
    return granted


def results(fields: dict[str, str]) -> dict[str, str]:
    return {name: text for name, text in fields.items() if name.startswith("o:") or name == "once"}


@pytest.mark.parametrize("end", ENDS)
def test_whatever_ends_an_attempt_the_next_one_finds_its_result(
    store: Store, end: Callable[[Store, Claim], None]
) -> None:
    end(store, recorded(store))
    assert results(claim(store).fields) == {"o:charge": '"done"', "once": "charge"}


def test_the_first_of_a_name_stands_and_is_what_everybody_gets(store: Store) -> None:
    granted = recorded(store)
    before = everything(store)
    assert record(store, granted, value='"another"') == ("ok", '"done"')
    assert everything(store) == before


def test_a_result_recorded_again_changes_nothing(store: Store) -> None:
    granted = recorded(store)
    before = everything(store)
    later(store, 1)
    assert record(store, granted) == ("ok", '"done"')
    assert everything(store) == before


def test_what_a_worker_did_that_lost_its_round_is_recorded(store: Store) -> None:
    """It charged the card, stood still, and was taken for dead: the next worker of the step must
    not charge it again.
    """
    new_run(store)
    zombie = claim(store)
    sweep_after(store, LEASE)
    assert record(store, zombie) == ("ok", '"done"')
    assert claim(store).fields["o:charge"] == '"done"'


def test_of_two_workers_in_a_step_the_first_to_record_is_believed_by_both(store: Store) -> None:
    new_run(store)
    zombie = claim(store)
    sweep_after(store, LEASE)
    second = claim(store)
    assert record(store, second, value="2") == ("ok", "2") == record(store, zombie, value="1")


@pytest.mark.parametrize("end", ["stopped now", "errored", "stopped gracefully and lost"])
def test_what_was_done_is_recorded_also_where_the_run_has_been_ended(
    store: Store, end: str
) -> None:
    """It may be resumed or retried, in this very step."""
    new_run(store)
    granted = claim(store)
    if end == "errored":
        sweep_after(store, LEASE, max_losses=0)
    else:
        stop(store, "now" if end == "stopped now" else "graceful")
        sweep_after(store, LEASE)
    expiry = store.redis.pexpiretime(store.keys.run("r"))
    assert phase(store) == ("errored" if end == "errored" else "stopped")
    assert record(store, granted) == ("ok", '"done"')
    assert (
        store.redis.pexpiretime(store.keys.run("r"))
        == expiry
        == (START + LEASE + RETENTION if end == "errored" else -1)
    )


@pytest.mark.parametrize("done", [commit_next, commit_end, pause_next])
def test_a_round_that_is_done_leaves_no_results_and_takes_none(
    store: Store, done: Callable[[Store, Claim], tuple[str, str]]
) -> None:
    granted = recorded(store)
    record(store, granted, "second", "2")
    assert done(store, granted)[0] == "ok"
    assert results(hash_of(store)) == {}
    before = everything(store)
    assert record(store, granted, "late") == ("stale", "")
    assert everything(store) == before


def test_a_worker_of_a_deleted_run_records_nothing_in_a_new_run_of_its_id(store: Store) -> None:
    """stop now > delete > submitted again under the same id: the same epoch, the same step, and not
    the same run.
    """
    new_run(store)
    zombie = claim(store)
    stop(store, "now")
    store.runs.delete("r")
    submit(store, nonce="another")
    before = everything(store)
    assert record(store, zombie) == ("stale", "")
    assert everything(store) == before


def test_a_result_of_no_run_is_missing(store: Store) -> None:
    granted = recorded(store)
    store.redis.delete(store.keys.run("r"))
    before = everything(store)
    assert record(store, granted) == ("missing", "")
    assert everything(store) == before


def test_a_step_records_64_results_and_says_when_it_is_full(store: Store) -> None:
    new_run(store)
    granted = claim(store)
    names = [f"part.{number}" for number in range(64)]
    assert {record(store, granted, name, name)[0] for name in names} == {"ok"}
    before = everything(store)
    assert record(store, granted, "one more") == ("full", "")
    assert record(store, granted, names[7], "another") == ("ok", names[7]), (
        "what is there is still told"
    )
    assert everything(store) == before
    commit_next(store, granted)
    assert results(hash_of(store)) == {}
    assert record(store, claim(store), "of the next step")[0] == "ok"


def test_a_result_is_kept_byte_for_byte(store: Store) -> None:
    new_run(store)
    granted = claim(store)
    value = '{"a":[],"b":1e400,"c":"\u20ac\\n\\u0000","d":12345678901234567890} '
    assert (
        record(store, granted, "odd", value) == ("ok", value) == record(store, granted, "odd", "{}")
    )
    fail_round(store, granted)
    sweep_after(store, 1_000)
    assert claim(store).fields["o:odd"] == value


def test_a_name_that_another_begins_with_is_another(store: Store) -> None:
    granted = recorded(store)
    assert record(store, granted, "charge.2", "2") == ("ok", "2")
    assert record(store, granted._replace(token="no token at all"), "charge") == ("ok", '"done"')


def test_a_large_result_is_an_artifact_and_the_first_of_its_name_stands(store: Store) -> None:
    granted = recorded(store)
    assert record(store, granted, "charge", "digest", "x" * 500) == ("ok", '"done"')
    assert store.reads.artifacts("r") == {}
    assert record(store, granted, "page", "digest", "x" * 500) == ("large", "digest")
    assert results(hash_of(store)) == {
        "o:charge": '"done"',
        "o:@page": "digest",
        "once": "charge\n@page",
    }
    before = everything(store)
    assert record(store, granted, "page", "another", "y") == ("large", "digest")
    assert record(store, granted, "page", "2") == ("large", "digest")
    assert everything(store) == before
    assert store.reads.artifact("r", "once/page-0") == "x" * 500


@pytest.mark.parametrize("done", [commit_next, commit_end, pause_next])
def test_only_the_artifacts_of_recorded_results_go_with_the_round(
    store: Store, done: Callable[[Store, Claim], tuple[str, str]]
) -> None:
    new_run(store, artifacts={"page-0": "kept", "once/other-0": "kept"})
    granted = claim(store)
    record(store, granted, "page", "digest", "large")
    record(store, granted, "other", "small")
    assert done(store, granted)[0] == "ok"
    assert results(hash_of(store)) == {}
    assert store.reads.artifacts("r") == {"page-0": 4, "once/other-0": 4}


def test_a_large_result_of_a_run_that_has_ended_expires_with_it(store: Store) -> None:
    new_run(store)
    granted = claim(store)
    sweep_after(store, LEASE, max_losses=0)
    assert record(store, granted, "page", "digest", "large") == ("large", "digest")
    key = store.keys.artifacts("r")
    assert store.redis.pexpiretime(key) == START + LEASE + RETENTION
