"""Artifacts: texts kept whole beside the history, in a key of their own, written by the commit of
the round that made them.
"""

from __future__ import annotations

import pytest

from perdure.worker.store import Claim, Store
from tests.support.runs import (
    LEASE,
    RETENTION,
    START,
    claim,
    commit,
    commit_end,
    everything,
    fail_round,
    message,
    new_run,
    pause_at,
    retry,
    stop,
    submit,
    sweep_after,
)

TEXTS = {"page-1": "<html>", "a \u20ac name:with\nanything--": "\u20ac" * 1000, "empty": ""}


def commit_with(store: Store, granted: Claim, kind: str, **artifacts: str) -> tuple[str, str]:
    named = (
        {"message": message("r", 1, 1)}
        if kind == "pause_next"
        else {"message": message("r", 0, 1)}
        if kind == "next"
        else {}
    )
    fields = pause_at("Executor", "before") if kind.startswith("pause") else {}
    if kind == "failed":
        return fail_round(store, granted, artifacts=artifacts or TEXTS)
    return commit(store, granted, kind, fields=fields, artifacts=artifacts or TEXTS, **named)


@pytest.mark.parametrize("kind", ["next", "end", "pause_next"])
def test_a_round_that_is_done_keeps_its_artifacts_whole(store: Store, kind: str) -> None:
    new_run(store)
    assert commit_with(store, claim(store), kind)[0] == "ok"
    assert {name: store.reads.artifact("r", name) for name in TEXTS} == TEXTS
    assert store.reads.artifacts("r") == {name: len(text.encode()) for name, text in TEXTS.items()}


@pytest.mark.parametrize("kind", ["pause_here", "failed", "give_back"])
def test_a_round_that_is_not_done_keeps_none(store: Store, kind: str) -> None:
    new_run(store)
    assert commit_with(store, claim(store), kind)[0] == "ok"
    assert store.reads.artifacts("r") == {}


def test_a_fenced_round_keeps_none(store: Store) -> None:
    new_run(store)
    zombie = claim(store)
    sweep_after(store, LEASE)
    assert commit_with(store, zombie, "next") == ("fenced", "")
    assert store.reads.artifacts("r") == {}


def test_artifacts_of_several_rounds_stand_beside_each_other(store: Store) -> None:
    new_run(store)
    commit_with(store, claim(store), "next", first="1")
    commit_with(store, claim(store), "next", second="2")
    assert store.reads.artifacts("r") == {"first": 1, "second": 1}


def test_what_is_not_there_is_none(store: Store) -> None:
    new_run(store)
    assert (
        store.reads.artifact("r", "page-1") is None
        and store.reads.artifact("nobody", "page-1") is None
        and store.reads.artifacts("nobody") == {}
    )


def test_a_claim_does_not_read_them(store: Store) -> None:
    new_run(store)
    commit_with(store, claim(store), "next", large="x" * 100_000)
    assert "x" * 1_000 not in repr(claim(store))


def test_they_expire_with_their_run_and_are_kept_again_by_a_retry(store: Store) -> None:
    new_run(store)
    commit_with(store, claim(store), "next")
    assert store.redis.pexpiretime(store.keys.artifacts("r")) == -1
    fail_round(store, claim(store), fatal=1)
    assert store.redis.pexpiretime(store.keys.artifacts("r")) == START + RETENTION
    retry(store)
    assert store.redis.pexpiretime(store.keys.artifacts("r")) == -1
    commit_end(store, claim(store))
    assert store.redis.pexpiretime(store.keys.artifacts("r")) == START + RETENTION


def test_those_of_the_last_round_expire_too(store: Store) -> None:
    new_run(store)
    commit_with(store, claim(store), "end")
    assert store.redis.pexpiretime(store.keys.artifacts("r")) == START + RETENTION


def test_a_sweep_that_ends_a_run_lets_them_expire(store: Store) -> None:
    new_run(store)
    commit_with(store, claim(store), "next")
    claim(store)
    sweep_after(store, LEASE, max_losses=0)
    assert store.redis.pexpiretime(store.keys.artifacts("r")) == START + LEASE + RETENTION


def test_a_deleted_run_takes_them_along(store: Store) -> None:
    new_run(store)
    commit_with(store, claim(store), "next")
    stop(store)
    assert store.runs.delete("r") == ["ok"]
    assert store.redis.exists(store.keys.artifacts("r")) == 0


def test_a_new_run_does_not_inherit_what_is_left_of_another(store: Store) -> None:
    store.redis.hset(store.keys.artifacts("r"), "page-1", "of somebody else")
    before = everything(store)
    assert submit(store) == ("damaged", store.keys.artifacts("r"))
    assert everything(store) == before


@pytest.mark.parametrize("phase", ["queued", "waiting", "interrupted"])
def test_a_new_run_has_the_artifacts_of_its_submission_from_the_beginning(
    store: Store, phase: str
) -> None:
    content = bytes(range(256)).decode("utf-8", "surrogateescape")
    given = {"files/a": content, "file-types/a": "image/png"} | {f"x{n}": "y" for n in range(300)}
    delay = {"delay": 1} if phase == "waiting" else {}
    assert submit(store, phase=phase, artifacts=given, **delay) == ("ok", "r")
    assert submit(store, phase=phase, artifacts={"other": "z"}, **delay) == ("ok", "r")
    stored = store.redis.hgetall(store.keys.artifacts("r"))
    assert stored == given
    assert store.redis.hget(store.keys.run("r"), "files/a") is None
    file = store.reads.file("r", "a")
    assert file is not None and file.content == bytes(range(256))


def test_a_refused_submission_stores_no_artifacts(store: Store) -> None:
    new_run(store)
    assert submit(store, nonce="another", artifacts={"a": "b"}) == ("exists", "r")
    assert store.reads.artifacts("r") == {}


def test_what_is_left_of_a_run_can_be_deleted(store: Store) -> None:
    store.redis.hset(store.keys.artifacts("r"), "page-1", "of somebody else")
    assert store.runs.delete("r") == ["ok"]
    assert submit(store) == ("ok", "r")
