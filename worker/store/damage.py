"""Damage: runs that no transition can read, and shared keys that hold something else; looked for, without touching anything."""

from __future__ import annotations

from typing import Any, cast

import redis

from worker.store import scripts
from worker.store.keys import INDEXES, Keys

#: How many runs of an index are looked at. Of those at rest or on their way the oldest, among which a damaged one stays behind;
#: of those that have ended the newest.
LOOKED_AT = 1000
ENDED = ("completed", "errored")


def find_damage(client: redis.Redis, keys: Keys) -> dict[str, str]:
    """What is damaged, each with what is wrong with it: runs by their id, keys that all runs share by their name.

    Raises:
        redis.ResponseError: this user may not look.
    """
    found: dict[str, str] = {}
    for index in INDEXES:
        key = keys.index(index)
        kind = cast(str, client.type(key))
        if kind not in ("zset", "none"):
            found[key] = f"it holds a {kind}"
            continue
        ids = cast(list[str], client.zrange(key, 0, LOOKED_AT - 1, desc=index in ENDED))
        for run_id, (words, marked) in zip(ids, _examined(client, keys, ids), strict=True):
            match words:
                case ["damaged", what] if what.partition(" ")[0] in keys.shared:
                    found[what.partition(" ")[0]] = "it does not hold what it should"
                case ["damaged", what]:
                    found[run_id] = what
                case ["missing"] if index not in ENDED:
                    found[run_id] = "its hash is gone"
                case _ if marked:
                    found[run_id] = "it was found so when it was played"
    return found


def _examined(client: redis.Redis, keys: Keys, ids: list[str]) -> list[tuple[Any, bool]]:
    """For each run what examine_run.lua says of it, and whether it is marked as quarantined."""
    examine = scripts.Transition(scripts.source("examine_run"))
    with client.pipeline(transaction=False) as pipe:
        for place, run_id in enumerate(ids):
            examine.into(pipe, keys.of_run(run_id), whole=place == 0)  # the server may not know it
            pipe.hexists(keys.run(run_id), "quarantined")
        answers = pipe.execute(raise_on_error=False) if ids else []
    for words in answers[::2]:
        if isinstance(words, Exception):
            raise words
    return [(words, marked is True) for words, marked in zip(answers[::2], answers[1::2], strict=True)]
