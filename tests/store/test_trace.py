"""set_trace: the first trace that a run is given stands; and the fields that describe a lost
attempt.
"""

from __future__ import annotations

from perdure.worker.store import Store
from tests.support.runs import (
    LEASE,
    START,
    claim,
    commit_end,
    commit_next,
    everything,
    hash_of,
    later,
    new_run,
    submit,
    sweep_after,
)

FIRST, SECOND = (f"00-{number:032x}-{number:016x}-01" for number in (1, 2))


def keep(store: Store, trace: str, nonce: str = "nonce-r") -> tuple[str, str]:
    return store.runs.set_trace("r", nonce=nonce, trace=trace)


def test_the_first_trace_stands_and_is_what_everybody_gets(store: Store) -> None:
    new_run(store)
    assert keep(store, FIRST) == ("ok", FIRST)
    before = everything(store)
    assert [keep(store, FIRST), keep(store, SECOND)] == [("ok", FIRST)] * 2
    assert everything(store) == before


def test_the_trace_of_the_submitter_stands(store: Store) -> None:
    new_run(store, fields={"trace": FIRST})
    assert keep(store, SECOND) == ("ok", FIRST)


def test_a_trace_comes_with_every_claim_and_no_round_ends_it(store: Store) -> None:
    new_run(store)
    keep(store, FIRST)
    commit_next(store, claim(store), span="0:1")
    granted = claim(store)
    assert (granted.fields["trace"], granted.fields["span"]) == (FIRST, "0:1")
    commit_end(store, granted)
    assert hash_of(store)["trace"] == FIRST


def test_a_worker_of_a_deleted_run_gives_no_trace_to_a_new_run_of_its_id(store: Store) -> None:
    new_run(store)
    commit_end(store, claim(store))
    store.runs.delete("r")
    assert keep(store, FIRST) == ("missing", "") and store.reads.fields("r") is None
    submit(store, nonce="another")
    assert keep(store, FIRST) == ("stale", "") and "trace" not in hash_of(store)


def test_a_loss_says_when_the_attempt_was_claimed(store: Store) -> None:
    new_run(store, fields={"trace": FIRST})
    later(store, 500)
    claim(store, owner="w1")
    sweep_after(store, LEASE)
    entries, fields = store.events.newest("r", 2, ["trace", "span", "flow"])
    assert [entry["type"] for _, entry in entries] == ["lost", "submitted"]
    assert (entries[0][1]["claimed_at"], entries[0][1]["at"]) == (
        str(START + 500),
        str(START + 500 + LEASE),
    )
    assert fields == {"trace": FIRST, "flow": "ring"}


def test_of_a_run_that_is_gone_nothing_is_told(store: Store) -> None:
    assert store.events.newest("nobody", 2, ["trace"]) == ([], {})
