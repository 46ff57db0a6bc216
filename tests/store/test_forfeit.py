"""A process known to be dead: its lease is over at once, and no other one."""

from __future__ import annotations

import pytest

from perdure.worker.store import Claim, ClaimRefused, Store
from tests.support.runs import (
    LEASE,
    advance,
    assert_lawful,
    claim,
    clock,
    commit_end,
    commit_next,
    due,
    events,
    everything,
    fail_round,
    hash_of,
    later,
    new_run,
    pause_here,
    phase,
    resume,
    retry,
    stop,
    sweep,
    sweep_after,
    try_claim,
)

CHILD = "host:71"


def forfeit(store: Store, process: str = CHILD, epoch: int = 0, step: int = 0) -> list[str]:
    return store.rounds.release_dead_lease("r", epoch=epoch, step=step, process=process)


def played(store: Store, process: str = CHILD) -> Claim:
    """Claim a round for a process."""
    new_run(store)
    advance(store, 0)
    return claim(store, claim=f"{process}.0")


def test_a_forfeited_lease_is_freed_by_the_next_sweep_and_counted_as_a_loss(store: Store) -> None:
    played(store)
    advance(store, 10)
    assert forfeit(store) == ["ok"]
    assert due(store) == clock(store)
    assert phase(store) == "leased", "the sweep alone takes leases away"
    assert_lawful(store)
    assert sweep(store) == [("r", "freed")]
    assert hash_of(store)["losses"] == "1" and [
        entry["losses"] for entry in events(store, kind="lost")
    ] == ["1"]
    assert claim(store).attempt == 2
    assert_lawful(store)


def test_a_forfeit_repeated_changes_nothing_however_late(store: Store) -> None:
    played(store)
    advance(store, 10)
    forfeit(store)
    before = everything(store)
    assert forfeit(store) == ["ok"]
    assert everything(store) == before
    later(store, LEASE)
    assert forfeit(store) == ["ok"]
    assert everything(store) == before


def test_no_silence_spares_a_forfeited_lease(store: Store) -> None:
    """Its owner is known to be dead; a time without sweeps says nothing about it."""
    played(store)
    later(store, 10 * LEASE)
    forfeit(store)
    later(store, LEASE)
    assert sweep(store) == [("r", "freed")]


@pytest.mark.parametrize("process", ["host:72", "host:7", "host:711", "other:71", ""])
def test_the_death_of_another_process_frees_nothing(store: Store, process: str) -> None:
    """A duplicate of the message that was refused its claim, and died in another child, or on
    another machine.
    """
    played(store)
    before = everything(store)
    assert forfeit(store, process) == ["not_held"]
    assert everything(store) == before


@pytest.mark.parametrize(("epoch", "step"), [(0, 1), (1, 1), (1, 0), (0, 0)])
def test_a_message_of_another_epoch_or_step_frees_nothing(
    store: Store, epoch: int, step: int
) -> None:
    """The process died after its commit, or with a message from before; the round that it holds by
    now is another one.
    """
    commit_next(store, played(store))
    claim(store, claim=f"{CHILD}.1")
    before = everything(store)
    assert forfeit(store, epoch=epoch, step=step) == (
        ["ok"] if (epoch, step) == (0, 1) else ["not_held"]
    )
    assert (everything(store) == before) == ((epoch, step) != (0, 1))


def test_where_nobody_holds_a_lease_there_is_none_to_forfeit(store: Store) -> None:
    assert forfeit(store) == ["missing"]
    granted = played(store)
    later(store, LEASE)
    for leave in (
        lambda: sweep_after(store, 0),  # queued
        lambda: fail_round(store, claim(store, claim=f"{CHILD}.1"), delay=500),  # waiting
        lambda: stop(store),
        lambda: resume(store),
    ):
        leave()
        before = everything(store)
        epoch = int(hash_of(store)["epoch"])
        assert forfeit(store, epoch=epoch) == ["not_held"], phase(store)
        assert everything(store) == before
    asked = claim(store, claim=f"{CHILD}.2")
    pause_here(store, asked)
    assert forfeit(store, epoch=1) == ["not_held"]
    resume(store, op="answer", answer="1")
    fail_round(store, claim(store, claim=f"{CHILD}.3"), fatal=1)
    assert forfeit(store, epoch=2) == ["not_held"]
    retry(store)
    commit_end(store, claim(store, claim=f"{CHILD}.4"))
    assert forfeit(store, epoch=3) == ["not_held"]
    assert granted.attempt == 1


def test_a_commit_that_was_on_its_way_still_counts_until_the_sweep(store: Store) -> None:
    """The process died just after it had sent it: either the commit or the loss is true, never
    both.
    """
    granted = played(store)
    forfeit(store)
    assert commit_next(store, granted) == ("ok", "continued")
    assert sweep(store) == [] and hash_of(store)["losses"] == "0"
    assert_lawful(store)


def test_after_the_sweep_the_dead_processs_commit_is_fenced(store: Store) -> None:
    granted = played(store)
    forfeit(store)
    sweep(store)
    assert commit_next(store, granted)[0] == "fenced"
    assert_lawful(store)


def test_a_beat_that_was_on_its_way_costs_a_lease_and_nothing_else(store: Store) -> None:
    granted = played(store)
    forfeit(store)
    assert store.rounds.extend([("r", granted.token, "")]) == ["ok"]
    assert sweep(store) == []
    assert sweep_after(store, LEASE) == [("r", "freed")]


def test_a_duplicate_is_refused_until_the_sweep_has_counted_the_loss(store: Store) -> None:
    played(store)
    forfeit(store)
    refused = try_claim(store)
    assert isinstance(refused, ClaimRefused) and refused.word == "leased"


def test_a_graceful_stop_holds_when_its_worker_dies(store: Store) -> None:
    played(store)
    stop(store)
    forfeit(store)
    assert sweep(store) == [("r", "stopped")] and hash_of(store)["in_doubt"] == "0/Controller/1"


def test_a_process_that_dies_again_and_again_errs_the_run_at_last(store: Store) -> None:
    new_run(store)
    words = []
    for loss in range(4):
        claim(store, claim=f"{CHILD}.{loss}")
        assert forfeit(store) == ["ok"]
        words.append(sweep(store)[0][1])
        if phase(store) == "waiting":
            sweep_after(store, 60_000)
    assert words == ["freed", "delayed", "delayed", "errored"]
