"""One script reads some fields of very many runs, as commands do of few."""

from __future__ import annotations

import pytest
import redis

from perdure.worker.store import Store, queries
from tests.support.runs import everything, new_run

NAMES = ("phase", "labels", "none", "goal")


def test_many_runs_are_read_like_few(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "MANY", 3)
    ids = [f"r{number}" for number in range(8)]
    for run_id in ids:
        new_run(store, run_id)
    key = store.keys.run("r3")
    store.redis.hset(key, mapping={"goal": "", "labels": 'ü "\\ / \n\0\udcff', "none": "false"})
    asked = ["r0", "gone", *ids, "r0"]
    found = store.reads.many_fields(asked, NAMES)
    assert found == store.reads.some_fields(asked, NAMES)
    assert found[1] == {}
    assert found[5] == {
        "phase": "queued", "labels": 'ü "\\ / \n\0\udcff', "none": "false", "goal": "",
    }  # fmt: skip
    assert store.reads.many_fields([], NAMES) == []


def test_a_key_that_is_no_hash_has_no_fields_and_hides_no_others(store: Store) -> None:
    for run_id in ("r1", "r2"):
        new_run(store, run_id)
    store.redis.set(store.keys.run("bad"), "text")
    before = everything(store)
    found = store.reads.many_fields(["r1", "bad", "r2"], ["phase"])
    assert found == [{"phase": "queued"}, {}, {"phase": "queued"}]
    assert everything(store) == before
    store.redis.delete(store.keys.run("bad"))


def test_another_error_than_a_wrong_type_is_raised(store: Store) -> None:
    new_run(store, "r1")
    script = store._scripts["read_fields"]
    with pytest.raises(redis.ResponseError, match=r"(?i)wrong number of arg"):
        script(store._wire, [store.keys.run("r1")], [])
