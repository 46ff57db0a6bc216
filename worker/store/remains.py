"""Remains: what a run leaves, also one that is damaged."""

from __future__ import annotations

from typing import cast

from worker.store.store import Store


def is_there(store: Store, run_id: str) -> bool:
    """Whether any key of the run is there, whatever it holds."""
    keys = store.keys
    with store._answered():
        return store.redis.exists(keys.run(run_id), keys.memory(run_id), keys.events(run_id)) > 0


def idempotency_key(store: Store, run_id: str) -> str | None:
    """The key that the run was submitted with; where the hash is damaged, it is looked for among all there are."""
    with store._answered():
        if store.examine(run_id) == ["ok"]:
            return cast("str | None", store.redis.hget(store.keys.run(run_id), "idem"))
        head = store.keys.idempotency("")
        for key in store.redis.scan_iter(match=f"{head}*", count=1000, _type="string"):
            if str(store.redis.get(key)).endswith(f" {run_id}"):
                return str(key).removeprefix(head)
    return None
