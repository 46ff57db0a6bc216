"""Bounded histories and renewals, by the scripts alone: the turns that a commit drops, and the
turns that it must keep.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from perdure.worker.domain.event import FIRST
from perdure.worker.store import Store
from tests.support.runs import (
    Claim,
    claim,
    commit_next,
    events,
    everything,
    fail_round,
    hash_of,
    new_run,
    park,
    phase,
    resume,
    signal,
    stay,
    stop,
    wake,
)

#: Events that a server trims at once, at least.
BLOCK = 100
Commit = Callable[..., Any]


def plain(store: Store, granted: Claim, additions: tuple[str, ...], **options: int) -> Any:
    return commit_next(store, granted, "Controller", additions, options)


def rare(store: Store, granted: Claim, additions: tuple[str, ...], **options: int) -> Any:
    """Commit by the script part for all cases."""
    return commit_next(store, granted, "Controller", additions, {"take": "", **options})


def staying(store: Store, granted: Claim, additions: tuple[str, ...], **options: int) -> Any:
    return stay(store, granted, "Controller", additions, **options)


PATHS = pytest.mark.parametrize("commit", [plain, rare, staying])


def two_turns(store: Store) -> Claim:
    """Return the claim of the second round of a run that has two turns."""
    new_run(store)
    assert commit_next(store, claim(store), "Controller", ("one", "two"))[0] == "ok"
    return claim(store)


def renewed(store: Store, granted: Claim, generation: int = 1, **fields: str) -> tuple[str, str]:
    options = {"generation": generation}
    return commit_next(store, granted, "Controller", (), options, **fields)


@PATHS
@pytest.mark.parametrize(
    ("forget", "left"),
    [
        (None, ["one", "two", "three"]),
        (0, ["one", "two", "three"]),
        (1, ["two", "three"]),
        (2, ["three"]),
        (9, ["three"]),
    ],
)
def test_a_commit_drops_the_oldest_turns_and_none_of_its_own(
    store: Store, commit: Commit, forget: int | None, left: list[str]
) -> None:
    commit(store, two_turns(store), ("three",), **({} if forget is None else {"forget": forget}))
    assert store.reads.memory("r") == left


@PATHS
def test_a_commit_that_adds_no_turn_may_drop_some(store: Store, commit: Commit) -> None:
    commit(store, two_turns(store), (), forget=2)
    assert store.reads.memory("r") == [] and not store.redis.exists(store.keys.memory("r"))


@PATHS
def test_a_repeated_commit_drops_nothing_more(store: Store, commit: Commit) -> None:
    granted = two_turns(store)
    commit(store, granted, ("three",), forget=1)
    before = everything(store)
    commit(store, granted, ("three",), forget=1)
    assert everything(store) == before and store.reads.memory("r") == ["two", "three"]


@PATHS
def test_nothing_is_dropped_if_a_key_is_of_a_wrong_type(store: Store, commit: Commit) -> None:
    granted = two_turns(store)
    for key in (store.keys.events("r"), store.keys.memory("r")):
        kept: Any = store.redis.dump(key)
        store.redis.set(key, "damage")
        before = everything(store)
        for additions in (("three",), ()):
            reply = commit(store, granted, additions, forget=1, keep_events=1)
            assert reply is None or reply[0] == "damaged"
            assert everything(store) == before
        store.redis.restore(key, 0, kept, replace=True)


@PATHS
@pytest.mark.parametrize("text", ["many", "-1", "1.5"])
def test_a_bound_that_is_no_count_drops_nothing(store: Store, commit: Commit, text: Any) -> None:
    commit(store, two_turns(store), ("three",), forget=text, keep_events=text)
    assert store.reads.memory("r") == ["one", "two", "three"] and len(events(store)) == 3


@PATHS
def test_a_commit_leaves_about_as_many_events_as_it_is_told(store: Store, commit: Commit) -> None:
    granted = two_turns(store)
    for number in range(3 * BLOCK):
        store.redis.xadd(store.keys.events("r"), {"type": f"other {number}"})
    commit(store, granted, ("three",), keep_events=50)
    left = [entry["type"] for entry in events(store)]
    assert 50 <= len(left) <= 50 + BLOCK and left[-1] == "committed"
    assert FIRST not in left


def test_a_commit_without_a_bound_drops_no_event(store: Store) -> None:
    granted = two_turns(store)
    for number in range(3 * BLOCK):
        store.redis.xadd(store.keys.events("r"), {"type": f"other {number}"})
    plain(store, granted, ("three",))
    assert len(store.events.read("r", count=1_000)) == 3 * BLOCK + 3


@pytest.mark.parametrize("kind", ["renew", "other"])
def test_only_a_renewal_removes_the_values_that_it_does_not_write(store: Store, kind: str) -> None:
    new_run(store, fields={"v:old": "1", "v:both": "1", "value": "1", "vv:x": "1"})
    granted = claim(store)
    if kind == "renew":
        assert renewed(store, granted, **{"v:both": "2", "v:new": "3"}) == ("ok", "continued")
    else:
        rare(store, granted, ())
    fields = hash_of(store)
    values = {name: text for name, text in fields.items() if name[:2] in ("v:", "va", "vv")}
    others = {"value": "1", "vv:x": "1"}
    if kind == "renew":
        assert values == {"v:both": "2", "v:new": "3", **others}
    else:
        assert values == {"v:old": "1", "v:both": "1", **others}


def test_a_renewal_is_the_next_round_of_the_same_run_and_says_so(store: Store) -> None:
    new_run(store)
    before = hash_of(store)
    assert renewed(store, claim(store), generation="1") == ("ok", "continued")
    fields = hash_of(store)
    assert [fields[name] for name in ("step", "epoch", "phase")] == ["1", "0", "queued"]
    assert all(fields[name] == before[name] for name in ("id", "nonce", "goal", "labels"))
    kinds = [(entry["type"], entry["step"]) for entry in events(store)]
    assert kinds == [("submitted", "0"), ("committed", "0"), ("renewed", "0")]
    assert events(store, kind="renewed")[0]["generation"] == "1"


def test_a_repeated_renewal_is_one(store: Store) -> None:
    new_run(store)
    granted = claim(store)
    renewed(store, granted)
    before = everything(store)
    assert renewed(store, granted) == ("ok", "continued")
    assert everything(store) == before


def test_a_renewal_whose_lease_is_another_workers_renews_nothing(store: Store) -> None:
    new_run(store, fields={"v:old": "1"})
    granted = claim(store)
    stop(store, "now")
    assert renewed(store, granted)[0] == "fenced"
    assert hash_of(store)["v:old"] == "1" and not events(store, kind="renewed")


def test_a_renewal_takes_what_its_round_used_and_leaves_every_other_signal(store: Store) -> None:
    new_run(store)
    granted = claim(store)
    for number in (1, 2, 3):
        signal(store, payload=str(number))
    signal(store, "other")
    commit_next(store, granted, "Controller", (), {"generation": 1, "take": "paid 1"})
    assert store.signals.counts_of("r", ["paid", "other"]) == {"paid": (1, 3), "other": (0, 1)}
    assert [
        found and found[3] for found in store.signals.stored("r", [("paid", 2), ("paid", 3)])
    ] == [
        "2",
        "3",
    ]


def test_a_signal_wakes_a_run_that_waits_in_its_second_generation(store: Store) -> None:
    new_run(store)
    granted = claim(store)
    signal(store, payload="1")
    commit_next(store, granted, "Controller", (), {"generation": 1, "take": "paid 1"})
    assert park(store, claim(store), "1", {"paid": 1}, None) == ("ok", "parked")
    signal(store, payload="2")
    assert wake(store) == "queued"


def test_a_stop_that_was_asked_for_meets_the_renewed_run(store: Store) -> None:
    new_run(store, fields={"v:old": "1"})
    granted = claim(store)
    stop(store)
    assert renewed(store, granted, **{"v:new": "2"}) == ("ok", "stopped")
    assert (phase(store), hash_of(store)["current_node"]) == ("stopped", "Controller")
    assert "v:old" not in hash_of(store)
    assert resume(store)[0] == "queued"
    assert hash_of(store)["v:new"] == "2" and len(events(store, kind="renewed")) == 1


def test_only_a_round_that_is_done_drops_turns(store: Store) -> None:
    granted = two_turns(store)
    assert fail_round(store, granted, forget=1)[0] == "ok"
    assert store.reads.memory("r") == ["one", "two"]


@PATHS
def test_turns_are_dropped_although_the_events_are_gone(store: Store, commit: Commit) -> None:
    granted = two_turns(store)
    store.redis.delete(store.keys.events("r"))
    commit(store, granted, ("three",), forget=1)
    assert store.reads.memory("r") == ["two", "three"] and len(events(store)) == 1


@PATHS
@pytest.mark.parametrize("data", ['{"a":1}', "{}", None])
def test_the_event_of_a_round_has_its_data_unless_there_is_none(
    store: Store, commit: Commit, data: str | None
) -> None:
    commit(store, two_turns(store), ("three",), data=data)
    assert events(store)[-1].get("data") == (data if data != "{}" else None)


def test_a_round_that_used_a_signal_takes_it_without_a_renewal_too(store: Store) -> None:
    new_run(store)
    granted = claim(store)
    signal(store)
    commit_next(store, granted, "Controller", (), {"take": "paid 1"})
    assert store.signals.counts_of("r", ["paid"]) == {"paid": (1, 1)}
