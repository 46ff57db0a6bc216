"""put_note and forget_notes: notes of a namespace within their bounds, and only from the round that
holds its lease.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

import pytest

from perdure import Settings
from perdure.flows.core.errors import UnstorableValue
from perdure.flows.rounds.notes import Note
from perdure.worker.errors import DamagedNote
from perdure.worker.features.notes.records import NoteRecords, index_of, keys_of, packed
from perdure.worker.store import Claim, Store
from perdure.worker.store.fence import Fence
from tests.support.runs import (
    LEASE,
    advance,
    claim,
    clock,
    commit_next,
    everything,
    new_run,
    stop,
    sweep,
)


def records(store: Store, **settings: Any) -> NoteRecords:
    return NoteRecords(store, Settings(redis_url=store.url, prefix=store.keys.prefix, **settings))


def note(key: str, text: str = "a fact", **fields: Any) -> Note:
    return Note(key, text, **fields)


def fence(granted: Claim, run_id: str = "r") -> Fence:
    return Fence(run_id, granted.token, granted.id or None)


def keys(found: list[Note]) -> list[str]:
    return [each.key for each in found]


def test_a_note_is_read_as_it_was_put_and_one_with_its_key_replaces_it(store: Store) -> None:
    notes = records(store)
    assert notes.get("n", "a") is None and notes.newest("n", 9) == []
    first = note("a", "Ada eats no meat — «ever»", value={"since": 2020}, run_id="r1")
    word, at, dropped = notes.put("n", first)
    assert (word, int(at), dropped) == ("ok", clock(store), [])
    when = datetime.fromtimestamp(int(at) / 1000, UTC)
    assert notes.get("n", "a") == note("a", first.text, value=first.value, run_id="r1", at=when)
    advance(store, 5)
    notes.put("n", note("a", "Ada eats fish"))
    [only] = notes.newest("n", 9)
    assert (only.text, only.value, only.run_id) == ("Ada eats fish", None, None)
    assert only.at.timestamp() * 1000 == int(at) + 5


def test_the_same_note_again_changes_nothing(store: Store) -> None:
    notes = records(store)
    answer = notes.put("n", note("a", run_id="r"))
    before = everything(store)
    assert store.now is not None
    store.now += 1000
    assert notes.put("n", note("a", run_id="r")) == answer
    assert everything(store) == before
    assert notes.put("n", note("a", run_id="another"))[1] > answer[1]


def test_notes_of_one_millisecond_keep_their_order(store: Store) -> None:
    notes = records(store)
    for key in ("b", "c", "a"):
        notes.put("n", note(key))
    assert keys(notes.newest("n", 9)) == ["a", "c", "b"]
    assert keys(notes.newest("n", 2)) == ["a", "c"]


def test_the_oldest_makes_room(store: Store) -> None:
    notes = records(store, max_notes=3)
    for key in "abc":
        notes.put("n", note(key))
    notes.put("n", note("a", "said again"))
    assert notes.put("n", note("d"))[2] == ["b"]
    assert keys(notes.newest("n", 9)) == ["d", "a", "c"]
    assert notes.get("n", "b") is None
    assert notes.put("other", note("b"))[2] == []
    assert records(store, max_notes=1).put("n", note("e"))[2] == ["c", "a", "d"]


def test_a_note_is_bounded(store: Store) -> None:
    notes = records(store, max_note_bytes=200)
    fits = note("a", "x" * (200 - len(packed(note("a", "")))))
    assert notes.put("n", fits)[0] == "ok"
    with pytest.raises(
        UnstorableValue, match=r"'b' of 'n' takes 201 bytes; the limit is 200 \(max_note"
    ):
        notes.put("n", note("b", fits.text + "x"))
    with pytest.raises(UnstorableValue, match="takes 2"):
        notes.put("n", note("b", "é" * 90))
    assert keys(notes.newest("n", 9)) == ["a"]


def test_words_are_found_and_the_best_come_first(store: Store) -> None:
    notes = records(store)
    notes.put("n", note("diet", "Ada eats no meat"))
    notes.put("n", note("invoices", "Invoices go to finance", value={"to": "Ben"}))
    notes.put("n", note("home", "Ada lives in Rome; invoices go there"))

    def found(words: str, limit: int = 9) -> list[str]:
        return keys(notes.search("n", words, limit))

    assert found("MEAT?") == ["diet"]
    assert found("where do the invoices of Ada go") == ["home", "invoices", "diet"]
    assert found("invoice") == ["home", "invoices"]
    assert found("ben") == ["invoices"]
    assert found("in", 9) == ["home"], "a short word is no beginning"
    assert found("ada", 1) == ["home"]
    assert found("") == found("  ") == ["home", "invoices", "diet"]
    assert found("nothing") == [] and notes.search("other", "ada", 9) == []


def test_notes_are_deleted_one_by_one_or_all(store: Store) -> None:
    notes = records(store)
    for key in "abc":
        notes.put("n", note(key))
    notes.put("other", note("a"))
    assert notes.forget("n", "b") == ("ok", "1")
    assert [each.namespace for each in notes.namespaces("", 9)] == ["n", "other"]
    assert notes.forget("n", "b") == notes.forget("m", "b") == ("ok", "0")
    assert keys(notes.newest("n", 9)) == ["c", "a"]
    assert notes.forget("n") == ("ok", "2") and notes.forget("n") == ("ok", "0")
    assert [each.namespace for each in notes.namespaces("", 9)] == ["other"]
    assert notes.forget("other", "a") == ("ok", "1")
    assert everything(store) == {}


def test_namespaces_are_listed_by_their_beginning_page_by_page(store: Store) -> None:
    notes = records(store)
    for name in ("user:ben", "user:ada", "team:x", "user:ada%3A", "userx"):
        notes.put(name, note("a"))
    notes.put("user:ada", note("b"))

    def names(*args: Any) -> list[str]:
        return [each.namespace for each in notes.namespaces(*args)]

    assert names("", 9) == ["team:x", "user:ada", "user:ada%3A", "user:ben", "userx"]
    scores = store.redis.zrange(index_of(store.keys), 0, -1, withscores=True)
    assert {score for _, score in scores} == {0}, "the order is that of the names"
    assert names("user:", 2) == ["user:ada", "user:ada%3A"]
    assert names("user:", 2, "user:ada%3A") == ["user:ben"]
    assert names("nobody", 9) == []
    [found] = notes.namespaces("user:ada", 1)
    assert (found.notes, found.newest) == (2, clock(store) + 1)


def test_a_round_that_has_lost_its_lease_writes_and_deletes_nothing(store: Store) -> None:
    notes = records(store)
    new_run(store)
    granted = claim(store)
    assert notes.put("n", note("a"), fence(granted))[0] == "ok"
    advance(store, LEASE + 1)
    sweep(store)
    again = claim(store)
    before = everything(store)
    assert notes.put("n", note("a", "late"), fence(granted)) == ("fenced", "", [])
    assert (
        notes.forget("n", "a", fence(granted))
        == notes.forget("n", None, fence(granted))
        == ("fenced", "")
    )
    assert everything(store) == before
    assert notes.put("n", note("a", "now"), Fence("r", again.token, None))[0] == "ok"
    assert notes.forget("n", "a", fence(again)) == ("ok", "1")
    assert notes.put("n", note("b"), Fence("r", again.token, "another claim"))[0] == "fenced"
    assert notes.put("n", note("b"), Fence("nobody", again.token, None))[0] == "fenced"
    assert notes.put("n", note("b"), Fence("r", granted.token, None))[0] == "fenced"
    commit_next(store, again)
    assert notes.put("n", note("b"), fence(again))[0] == "fenced"
    last = claim(store)
    assert stop(store, "now")[0]
    for late in (fence(last), Fence("r", last.token, None)):
        assert notes.put("n", note("b"), late)[0] == "fenced"
    assert notes.newest("n", 9) == []


@pytest.mark.parametrize("which", [0, 1, 2, 3])
def test_a_key_of_a_wrong_type_is_named_and_nothing_is_written(store: Store, which: int) -> None:
    notes = records(store)
    names = [*keys_of(store.keys, "n"), index_of(store.keys), store.keys.run("r")]
    store.redis.set(names[which], "x")
    before = everything(store)
    held = Fence("r", "1", None)
    assert notes.put("n", note("a"), held) == ("damaged", names[which], [])
    assert notes.forget("n", None, held) == ("damaged", names[which])
    assert everything(store) == before


def test_a_note_that_has_lost_its_time_gets_one(store: Store) -> None:
    notes = records(store)
    notes.put("n", note("a"))
    store.redis.delete(keys_of(store.keys, "n")[1])
    assert notes.put("n", note("a")) == ("ok", str(clock(store)), [])
    assert keys(notes.newest("n", 9)) == ["a"]


@pytest.mark.parametrize("text", ["no json", "[]", '{"text": "x"}', "null"])
def test_a_note_that_cannot_be_read_is_named(store: Store, text: str) -> None:
    notes = records(store)
    notes.put("n", note("a"))
    store.redis.hset(keys_of(store.keys, "n")[0], "a", text)
    for read in (lambda: notes.get("n", "a"), lambda: notes.search("n", "x", 1)):
        with pytest.raises(DamagedNote, match=r"'a' of 'n' .* perdure notes delete n a"):
            read()
    assert notes.forget("n", "a") == ("ok", "1")


def test_writers_at_once_lose_nothing(store: Store) -> None:
    each, writers = 40, 6

    def write(writer: int) -> None:
        with closing(Store(store.url, store.keys.prefix)) as own:
            for number in range(each):
                records(own).put("n", note(f"{writer}.{number}", f"{number} of {writer}"))
                records(own).put("n", note("shared", f"{number} of {writer}"))

    with ThreadPoolExecutor(writers) as pool:
        list(pool.map(write, range(writers)))
    [found] = records(store).namespaces("", 9)
    assert found.notes == each * writers + 1
    assert len(records(store).newest("n", 1000)) == found.notes
