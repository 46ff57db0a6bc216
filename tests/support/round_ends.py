"""Ways in which a round ends after its intent."""

from __future__ import annotations

from perdure.worker.store import Claim, Store
from tests.support.runs import (
    LEASE,
    claim,
    commit,
    fail_round,
    pause_here,
    resume,
    retry,
    stop,
    sweep_after,
)


def lost(store: Store, granted: Claim) -> None:
    sweep_after(store, LEASE)


def lost_twice(store: Store, granted: Claim) -> None:
    sweep_after(store, LEASE)
    claim(store)
    assert sweep_after(store, LEASE) == [("r", "delayed")]
    sweep_after(store, LEASE)


def failed(store: Store, granted: Claim) -> None:
    fail_round(store, granted)
    sweep_after(store, 1_000)


def given_back(store: Store, granted: Claim) -> None:
    commit(store, granted, "give_back")


def asked(store: Store, granted: Claim) -> None:
    pause_here(store, granted)
    resume(store, answer='"yes"')


def stopped_gracefully(store: Store, granted: Claim) -> None:
    stop(store)
    commit(store, granted, "give_back")
    resume(store)


def stopped_now(store: Store, granted: Claim) -> None:
    stop(store, "now")
    resume(store)
    sweep_after(store, LEASE)


def ended_and_retried(store: Store, granted: Claim) -> None:
    fail_round(store, granted, fatal=1)
    retry(store)


ENDS = (
    lost,
    lost_twice,
    failed,
    given_back,
    asked,
    stopped_gracefully,
    stopped_now,
    ended_and_retried,
)
