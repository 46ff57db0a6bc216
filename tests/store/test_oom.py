"""Under maxmemory new work is refused, and running work can still beat, stop and end."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from perdure import Note, Settings
from perdure.worker.store import Claim, Store, StoreUnavailable
from perdure.worker.store.fence import Fence
from perdure.worker.store.scripts import TRANSITIONS, source
from tests.support.child_runs import child_id, group_of, park_on_children, start_children
from tests.support.redis_servers import available_binaries, server
from tests.support.runs import (
    LEASE,
    START,
    claim,
    commit_end,
    commit_next,
    fail_round,
    later,
    new_run,
    park,
    pause_here,
    phase,
    resume,
    retry,
    signal,
    signal_topic,
    stop,
    submit,
    sweep,
    try_claim,
    wake,
)  # fmt: skip

RUNS = (
    "beats",
    "goes on",
    "ends",
    "stops",
    "stops now",
    "fails",
    "asks",
    "is answered",
    "is retried",
    "is lost",
    "is resumed",
    "is deleted",
    "is woken",
    "is signalled",
    "is forfeited",
    "sets out",
    "has children",
)


@pytest.fixture(params=["valkey", "redis"])
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    """On a separate server: it is filled up."""
    if request.param not in available_binaries() and "CI" not in os.environ:
        pytest.skip(f"this machine has no {request.param}-server")
    with server(request.param, "no") as running:
        made = Store(running.url, "full", now=START)
        yield made
        made.close()


def fill(store: Store) -> None:
    """Leave no memory to write to."""
    info: Any = store.redis.info("memory")
    store.redis.config_set("maxmemory", int(info["used_memory"]) // 2)


def test_a_full_server_refuses_new_work_and_lets_running_work_beat_stop_and_end(
    store: Store,
) -> None:
    """A heartbeat refused > every lease lapses."""
    sweep(store)
    granted = {}
    for run_id in RUNS:
        new_run(store, run_id)
        granted[run_id] = claim(store, run_id, claim=f"host:{run_id}.1")
    pause_here(store, granted["is answered"])
    fail_round(store, granted["is retried"], fatal=1)
    stop(store, run_id="is resumed")
    commit_next(store, granted["is resumed"])
    stop(store, "now", run_id="is deleted")
    park_on_children(store, granted["has children"], (2, 2, 2), total=2)
    start_children(store, run_id="has children")
    new_run(store, "waits")
    park(store, granted["is woken"], "1", {"paid": 1}, None)
    signal(store, run_id="is woken")
    signal_topic(store, "order:2")
    for name in TRANSITIONS:
        store.redis.script_load(source(name))
    fill(store)
    with pytest.raises(StoreUnavailable):
        submit(store, "new")
    assert store.reads.fields("new") is None
    assert store.reads.many_fields(["goes on"], ["phase"]) == [{"phase": "leased"}]
    with pytest.raises(StoreUnavailable):
        signal(store, run_id="is signalled")
    with pytest.raises(StoreUnavailable, match="full"):
        signal_topic(store)
    hook = {"nonce": "nonce-goes on", "name": "paid", "digest": "d"}
    assert store.signals.open_hook("goes on", **hook) == "ok"
    round_of = {"token": granted["goes on"].token, "claim": granted["goes on"].id}
    assert store.signals.take_topic("goes on", topic="order:2", **round_of) == ("ok", "")
    assert store.signals.counts_of("goes on", ["paid"]) == {"paid": (0, 1)}
    assert store.signals.counts_of("is signalled", ["paid"]) == {"paid": (0, 0)}
    with pytest.raises(StoreUnavailable):
        start_children(store, run_id="has children", first=1)
    assert group_of(store, run_id="has children")["started"] == "1"
    assert store.family.reconcile("has children").word == "start"
    child = child_id(store, 0, run_id="has children")
    assert commit_end(store, claim(store, child)) == ("ok", "completed")
    assert store.runs.raise_limit("is woken", op="more", add="tokens 1") == ["ok", "parked"]
    assert wake(store, "is woken") == "queued"
    assert store.rounds.extend(
        [(run_id, granted[run_id].token, '{"done":1}') for run_id in ("beats", "stops")]
    ) == ["ok", "ok"]
    assert commit_next(store, granted["goes on"]) == ("ok", "continued")
    assert commit_end(store, granted["ends"]) == ("ok", "completed")
    assert stop(store, run_id="stops")[0] == "asked"
    assert stop(store, "now", run_id="stops now")[0] == "stopped"
    assert fail_round(store, granted["fails"]) == ("ok", "waiting")
    assert pause_here(store, granted["asks"]) == ("ok", "interrupted")
    assert resume(store, run_id="is answered", answer="1") == ["queued"]
    assert retry(store, run_id="is retried") == ["queued"]
    assert resume(store, run_id="is resumed") == ["queued"]
    assert store.runs.delete("is deleted") == ["ok"]
    assert isinstance(try_claim(store, "waits"), Claim)
    assert (
        store.rounds.intend(
            "sets out",
            epoch=0,
            step=0,
            token=granted["sets out"].token,
            claim=None,
            key="sets out:0:k",
        )
        == "ok"
    )
    nonce = granted["sets out"].fields["nonce"]
    assert store.rounds.record_result(
        "sets out", nonce=nonce, step=0, name="charge", value="1"
    ) == (
        "ok",
        "1",
    )
    assert store.runs.set_trace("sets out", nonce=nonce, trace="t") == ("ok", "t")
    assert store.rounds.ask_provider("enter", "p", "sets out:0:1", lease=30_000, longest=5_000) == (
        "go",
        0,
    )
    assert store.rounds.ask_provider(
        "refused", "p", "sets out:0:1", first=1_000, longest=60_000
    ) == (
        "wait",
        1_000,
    )
    assert commit_next(store, granted["sets out"]) == ("ok", "continued")
    assert store.rounds.release_dead_lease(
        "is forfeited", epoch=0, step=0, process="host:is forfeited"
    ) == ["ok"]
    later(store, 1_000)
    assert store.rounds.extend([("beats", granted["beats"].token, "")]) == ["ok"]
    sweep(store)
    later(store, (LEASE - 1_000) // 2)
    sweep(store)
    later(store, (LEASE - 1_000) // 2)
    assert ("is lost", "freed") in sweep(store)
    assert phase(store, "beats") == "leased"
    store.redis.config_set("maxmemory", 0)
    assert submit(store, "new") == ("ok", "new")


def test_a_full_server_that_has_forgotten_the_scripts_still_takes_the_beat(store: Store) -> None:
    """A restart forgets all scripts; where they must be loaded first, and loading is refused, every
    lease lapses.
    """
    new_run(store)
    token = claim(store).token
    store.redis.script_flush()
    fill(store)
    assert store.rounds.extend([("r", token, "")]) == ["ok"]
    assert stop(store)[0] == "asked"


def test_notes_of_running_work_are_kept_and_forgotten_under_maxmemory(store: Store) -> None:
    from perdure.worker.features.notes.records import NoteRecords

    new_run(store, "goes on")
    granted = claim(store, "goes on", claim="host:goes on.1")
    for name in ("put_note", "forget_notes"):
        store.redis.script_load(source(name))
    fill(store)
    notes, fence = NoteRecords(store, Settings()), Fence("goes on", granted.token, granted.id)
    assert notes.put("user:ada", Note("a", "x"), fence)[0] == "ok"
    assert notes.forget("user:ada", "a", fence) == ("ok", "1")
