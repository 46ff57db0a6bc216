"""Hearing: what happened to several runs, asked for with one read; for a server that many people watch runs through."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from worker.client.connection import Connected
from worker.errors import DamagedRun
from worker.event import Event
from worker.store import Store


@dataclass(frozen=True)
class Heard:
    """What happened to one run, oldest first; ``damaged``: behind that stands something that is no event."""

    events: list[Event] = field(default_factory=list)
    damaged: bool = False


def hear(client: Connected, after: Mapping[str, str], block: int) -> dict[str, Heard]:
    """What happened to each of these runs behind the event whose id stands beside it; waits up to ``block`` ms for the first.

    Raises:
        StoreUnavailable: the server does not answer.
    """
    store = client._store
    try:
        return {run_id: _heard(entries) for run_id, entries in store.events_of(after, block).items()}
    except DamagedRun:  # one key that holds something else fails the whole read, and is not named: ask for each by itself
        return {run_id: _alone(store, run_id, last) for run_id, last in after.items()}


def _alone(store: Store, run_id: str, after: str) -> Heard:
    try:
        return _heard(store.events(run_id, after))
    except DamagedRun:
        return Heard(damaged=True)


def _heard(entries: Iterable[tuple[str, Mapping[str, str]]]) -> Heard:
    events: list[Event] = []
    for entry_id, entry in entries:
        try:
            events.append(Event.of(entry_id, entry))
        except DamagedRun:
            return Heard(events, damaged=True)
    return Heard(events)
