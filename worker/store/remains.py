"""Remains: what a run leaves, also one that is damaged."""

from __future__ import annotations

from typing import cast

from worker.store.store import Store


def is_there(store: Store, run_id: str) -> bool:
    """Whether any key of the run is there, whatever it holds."""
    keys = store.keys
    with store._answered():
        return store.redis.exists(keys.run(run_id), keys.memory(run_id), keys.events(run_id), keys.artifacts(run_id)) > 0


def idempotency_key(store: Store, run_id: str) -> str | None:
    """The key that the run was submitted with; where the hash is damaged and does not tell, it is looked for among all there are.

    Raises:
        AccessDenied: that needs SCAN, by which a user sees the names of all keys on the server.
    """
    with store._answered("SCAN, to find the idempotency key of a damaged run"):
        told = store.redis.hget(store.keys.run(run_id), "idem") if store.redis.type(store.keys.run(run_id)) == "hash" else None
        if store.examine(run_id) == ["ok"]:
            return cast("str | None", told)
        if told is not None and _is_of(store, store.keys.idempotency(str(told)), run_id):
            return str(told)
        head = store.keys.idempotency("")
        for key in store.redis.scan_iter(match=f"{head}*", count=1000, _type="string"):
            if _is_of(store, str(key), run_id):
                return str(key).removeprefix(head)
    return None


def _is_of(store: Store, key: str, run_id: str) -> bool:
    return store.redis.type(key) == "string" and str(store.redis.get(key)).endswith(f" {run_id}")
