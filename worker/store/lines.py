"""Lines: the broker's queues as the state server knows them, and the runs that are looked at next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from worker.store.keys import ROLES
from worker.store.store import Store


@dataclass(frozen=True)
class Line:
    """One queue: its length and next message (None where it is with another broker), the numbers of the newest pushed and claimed."""

    role: str
    queue: str
    length: int | None
    next: str | None
    pushed: str | None
    taken: str | None


def lines(store: Store, lengths: Mapping[str, int] | None = None) -> list[Line]:
    """The queues, in one exchange. ``lengths``: of another broker's; empty: it does not answer."""
    keys = store.keys
    names = {role: keys.queue(role) for role in ROLES}
    with store._answered(), store.redis.pipeline(transaction=False) as pipe:
        for queue in names.values():
            pipe.hmget(keys.queues, [f"{queue}:pushed", f"{queue}:cursor"])
            pipe.llen(queue)
            pipe.lindex(queue, -1)
        found = pipe.execute()
    told = []
    for place, (role, queue) in enumerate(names.items()):
        (pushed, taken), length, text = found[3 * place : 3 * place + 3]
        told.append(Line(role, queue, length if lengths is None else lengths.get(queue), text, pushed, taken))
    return told


def due_first(store: Store, limit: int) -> list[str]:
    """The runs that are looked at next: those that are overdue longest first."""
    with store._answered():
        return cast(list[str], store.redis.zrange(store.keys.due, 0, limit - 1))


def oldest(store: Store, index: str, limit: int) -> list[str]:
    """The runs that have been in an index longest."""
    with store._answered():
        return cast(list[str], store.redis.zrange(store.keys.index(index), 0, limit - 1))
