"""Runs that hold a topic, and the stored data of the topic."""

from __future__ import annotations

from typing import Any

from perdure.worker.store import Store
from tests.support.runs import claim, commit_end, fail_round, new_run

TOPIC = "order:1"


def holder(store: Store, run_id: str = "r", **options: Any) -> str:
    """Submit a run with the topic; return its id."""
    return new_run(store, run_id, topic=TOPIC, **options)


def mail(store: Store, run_id: str = "r", name: str = "paid") -> list[str]:
    """Return the payloads of the run's unread signals of one name, in their order."""
    (taken, last) = store.signals.counts_of(run_id, [name])[name]
    unread = [(name, place) for place in range(taken + 1, last + 1)]
    found = store.signals.stored(run_id, unread) if unread else []
    return [each[3] for each in found if each is not None]


def room(store: Store) -> dict[str, str]:
    """Return the hash of the topic."""
    found: dict[str, str] = store.redis.hgetall(store.keys.topic(TOPIC))
    return found


def expiry(store: Store) -> int:
    """Return when the topic expires (ms); -1: never; -2: there is none."""
    return int(store.redis.pexpiretime(store.keys.topic(TOPIC)))


def end(store: Store, run_id: str = "r") -> None:
    assert commit_end(store, claim(store, run_id)) == ("ok", "completed")


def fail(store: Store, run_id: str = "r") -> None:
    assert fail_round(store, claim(store, run_id), fatal=True) == ("ok", "errored")
