"""Two versions of the code at once: an older worker leaves a newer one's runs to it, and never
destroys unknown data.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from perdure.worker.store import ClaimRefused, Store
from tests.support.cases import EachCase, cases_of
from tests.support.runs import (
    GRACE,
    LEASE,
    advance,
    claim,
    clock,
    commit,
    commit_end,
    commit_next,
    due,
    everything,
    fail_round,
    hash_of,
    message,
    new_run,
    pause_here,
    pause_next,
    phase,
    resume,
    retry,
    stop,
    sweep_after,
    take,
)

#: Data that a newer worker may store, under names close to ours, and bytes that are no text.
FUTURE = {
    "x_future": "\udcff\udcfe\x00",
    "v:later": "[1",
    "i_later": "7",
    "stop_later": "",
    "lease_later": "nan",
    "9": "9",
    "message2": "{",
}


def errored(store: Store) -> None:
    fail_round(store, claim(store), fatal=1)


def interrupted(store: Store) -> None:
    pause_here(store, claim(store), i_wait="10", i_default="1")


#: A way through the transitions, and the phase that it ends in.
WAYS: dict[str, tuple[str, Callable[[Store], Any]]] = {
    "claimed": ("leased", claim),
    "beaten": ("leased", lambda store: store.rounds.extend([("r", claim(store).token, "{}")])),
    "intended": (
        "leased",
        lambda store: store.rounds.intend(
            "r", epoch=0, step=0, token=claim(store).token, claim=None, key="k"
        ),
    ),
    "recorded": (
        "queued",
        lambda store: store.rounds.record_result(
            "r", nonce="nonce-r", step=0, name="charge", value="1"
        ),
    ),
    "forfeited": (
        "leased",
        lambda store: (
            claim(store, claim="h:1.1"),
            store.rounds.release_dead_lease("r", epoch=0, step=0, process="h:1"),
        ),
    ),
    "committed": ("queued", lambda store: commit_next(store, claim(store))),
    "committed and ended": ("completed", lambda store: commit_end(store, claim(store))),
    "paused after": ("interrupted", lambda store: pause_next(store, claim(store))),
    "paused here": ("interrupted", interrupted),
    "failed": ("waiting", lambda store: fail_round(store, claim(store))),
    "failed for good": ("errored", errored),
    "given back": ("queued", lambda store: commit(store, claim(store), "give_back")),
    "found damaged": ("errored", lambda store: commit(store, claim(store), "damaged", error="e")),
    "quarantined": (
        "errored",
        lambda store: store.rounds.quarantine(
            "r", epoch="0", step="0", message=message("r", 0, 0), error="e"
        ),
    ),
    "stopped": ("stopped", stop),
    "stopped in flight": ("stopped", lambda store: (claim(store), stop(store, "now"))),
    "stopped, resumed": ("queued", lambda store: (stop(store), resume(store))),
    "answered": ("queued", lambda store: (interrupted(store), resume(store, answer="1"))),
    "answered by default": ("queued", lambda store: (interrupted(store), sweep_after(store, 10))),
    "retried": ("queued", lambda store: (errored(store), retry(store))),
    "freed": ("queued", lambda store: (claim(store), sweep_after(store, LEASE))),
    "woken": (
        "queued",
        lambda store: (fail_round(store, claim(store), delay=1), sweep_after(store, 1)),
    ),
    "sent again": (
        "queued",
        lambda store: (take(store), *(sweep_after(store, GRACE) for _ in range(3))),
    ),
}


def test_fields_that_this_version_does_not_know_are_kept_byte_for_byte(
    fresh_store: Callable[[], Store], each_case: EachCase
) -> None:
    def check(way: str) -> None:
        store = fresh_store()
        end, go = WAYS[way]
        new_run(store)
        store.redis.hset(store.keys.run("r"), mapping=FUTURE)
        go(store)
        fields = hash_of(store)
        assert fields["phase"] == end
        assert {name: fields.get(name) for name in FUTURE} == FUTURE

    each_case(cases_of(WAYS), check)


def claim_as_older(store: Store) -> Any:
    return store.rounds.claim(
        "r",
        epoch=0,
        step=0,
        claim="c",
        owner="old",
        lease=LEASE,
        known=["ring"],
        schema="1",
        back=10,
    )


def test_an_older_worker_is_not_granted_a_newer_ones_run_and_takes_nothing_from_it(
    store: Store,
) -> None:
    new_run(store, fields={"schema": "2", **FUTURE})
    before = hash_of(store)
    assert claim_as_older(store) == ClaimRefused("unknown", "ring")
    after = hash_of(store)
    assert phase(store) == "waiting" and set(before) <= set(after)
    moved = {name for name in before if before[name] != after[name]}
    assert moved <= {"phase", "updated_at", "unknown", "looked"}


@pytest.mark.parametrize("schema", ["1", "2"])
def test_an_older_client_removes_no_run_whose_phase_it_does_not_know(
    store: Store, schema: str
) -> None:
    """To it such a run reads as damaged, and damaged runs can be removed; a newer version's is not
    damaged.
    """
    new_run(store, fields={"schema": schema})
    store.redis.hset(store.keys.run("r"), "phase", "sleeping")
    before = everything(store)
    answer = store.runs.delete("r", schema="1")
    if schema == "1":
        assert answer == ["ok"] and store.reads.fields("r") is None
    else:
        assert answer == ["newer", "2"] and everything(store) == before


@pytest.mark.parametrize("end", [commit_end, errored])
def test_an_older_client_removes_a_newer_run_that_has_ended(
    store: Store, end: Callable[..., Any]
) -> None:
    new_run(store, fields={"schema": "2"})
    end(*((store,) if end is errored else (store, claim(store))))
    assert store.runs.delete("r", schema="1") == ["ok"]


@pytest.mark.parametrize(
    ("field", "text"), [("phase", "sleeping"), ("step", "one"), ("queue", "elsewhere")]
)
@pytest.mark.parametrize("schema", ["1", "2"])
def test_an_older_sweep_lets_go_of_no_run_that_only_a_newer_worker_can_read(
    store: Store, schema: str, field: str, text: str
) -> None:
    new_run(store, fields={"schema": schema})
    store.redis.hset(store.keys.run("r"), field, text)
    before = hash_of(store)
    advance(store, GRACE)
    [(_, word)] = store.fleet.sweep(lease=LEASE, max_losses=3, jitter=0.0, schema="1").report
    assert hash_of(store) == before
    assert (word, due(store)) == (
        ("damaged", None) if schema == "1" else ("in_line", clock(store) + LEASE)
    )
