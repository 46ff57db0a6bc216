"""Live text in the store: only the round that has the lease writes it, and it dies with its run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from perdure.worker.errors import DamagedRun
from perdure.worker.store import Claim, Store
from perdure.worker.store.fence import Fence
from perdure.worker.store.live_text import LiveTextRecords
from tests.support.runs import (
    advance,
    claim,
    commit_end,
    commit_next,
    everything,
    fail_round,
    hash_of,
    new_run,
    stay,
    stop,
    submit,
    sweep,
)


def shown(store: Store, granted: Claim, run_id: str = "r", *texts: str, first: int = 0) -> bool:
    """Show some texts as the round of a claim does, and return whether they are shown."""
    entries: list[dict[str, Any]] = [
        {"number": first + place, "kind": "text", "part": "", "text": text}
        for place, text in enumerate(texts or ("words",))
    ]
    fence = Fence(run_id, granted.token, granted.id)
    return LiveTextRecords(store).append(fence, 0, granted.attempt, entries)


def texts_of(store: Store, run_id: str = "r") -> list[str]:
    entries: Any = store.redis.xrange(store.keys.live_text(run_id))
    return [fields["text"] for _, fields in entries]


def lose(store: Store, _: Claim) -> None:
    advance(store, 10 * 60_000)
    sweep(store)
    advance(store, 10 * 60_000)
    sweep(store)


#: The ends of a round's right to show text.
ENDS: dict[str, Callable[[Store, Claim], object]] = {
    "commit": commit_next,
    "end": commit_end,
    "failure": fail_round,
    "stop now": lambda store, _: stop(store, "now"),
    "loss": lose,
    "stay": stay,
}


@pytest.mark.parametrize("end", ENDS)
def test_a_round_without_its_lease_shows_nothing(store: Store, end: str) -> None:
    new_run(store)
    granted = claim(store)
    assert shown(store, granted) and texts_of(store) == ["words"]
    ENDS[end](store, granted)
    before = everything(store)
    assert not shown(store, granted, first=1)
    assert everything(store) == before


def test_a_round_shows_nothing_in_the_run_that_takes_its_id(store: Store) -> None:
    new_run(store)
    granted = claim(store)
    stop(store, "now")
    store.runs.delete("r")
    assert not shown(store, granted) and not store.redis.exists(store.keys.live_text("r"))
    submit(store, nonce="another")
    own = claim(store)
    assert own.token == granted.token or own.id != granted.id
    assert not shown(store, granted) and texts_of(store) == []


def test_text_that_is_sent_again_is_there_once(store: Store) -> None:
    new_run(store)
    granted = claim(store)
    shown(store, granted, "r", "a", "b")
    assert shown(store, granted, "r", "a", "b")
    assert shown(store, granted, "r", "b", "c", first=1)
    assert texts_of(store) == ["a", "b", "c"]


@pytest.mark.parametrize("errored", [False, True])
def test_text_expires_not_later_than_its_run(store: Store, errored: bool) -> None:
    new_run(store, fields={"retention": "60000"})
    granted = claim(store)
    shown(store, granted)
    fail_round(store, granted, max_failures=1) if errored else commit_end(store, granted)
    assert store.redis.pexpiretime(store.keys.live_text("r")) == store.redis.pexpiretime(
        store.keys.run("r")
    )


def test_text_expires_an_hour_after_its_last_entry_while_its_run_stays(store: Store) -> None:
    new_run(store, fields={"retention": "360000000"})
    granted = claim(store)
    shown(store, granted)
    commit_end(store, granted)
    key = store.keys.live_text("r")
    assert store.redis.pexpiretime(key) == int(hash_of(store)["ended_at"]) + 3_600_000


def test_a_key_of_a_wrong_type_is_left_as_it_is(store: Store) -> None:
    new_run(store)
    granted = claim(store)
    store.redis.hset(store.keys.live_text("r"), "a", "b")
    before = everything(store)
    with pytest.raises(DamagedRun, match="no text can be shown"):
        shown(store, granted)
    assert everything(store) == before


def test_a_run_whose_id_is_anothers_with_text_at_its_end_is_a_run_of_its_own(store: Store) -> None:
    new_run(store, "x")
    new_run(store, "x:text")
    granted = claim(store, "x")
    before = hash_of(store, "x:text")
    assert shown(store, granted, "x")
    commit_end(store, granted)
    assert store.runs.delete("x") == ["ok"]
    assert hash_of(store, "x:text") == before
    assert store.redis.pttl(store.keys.run("x:text")) == -1


@pytest.mark.parametrize("name", [":text", "/text"])
def test_a_deletion_takes_the_text_that_an_earlier_version_has_shown(
    store: Store, name: str
) -> None:
    new_run(store)
    key = store.keys.run("r") + name
    store.redis.xadd(key, {"text": "words"})
    stop(store)
    assert store.runs.delete("r") == ["ok"] and not store.redis.exists(key)
