"""Looking at one run and at what stands around it, for ``why``."""

from __future__ import annotations

import json
from collections.abc import Mapping

from worker.errors import DamagedRun
from worker.standing import Standing, WorkerSeen
from worker.store.store import Store

#: Messages at the consuming end among which the run's own is looked for; the sweep searches as many.
SEARCHED = 256
#: How often a run that moves while it is looked at is looked at anew.
LOOKS = 5


def look(store: Store, run_id: str, lengths: Mapping[str, int] | None = None) -> Standing | None:
    """Where the run stands; None where there is no such run. Raises StoreUnavailable.

    ``lengths``: of the broker's queues, where they are not in this store; empty: the broker does not answer.
    The queue is named by the hash, so that is read first, and again with the rest.
    """
    words = store.examine(run_id)
    if words[0] == "missing":
        return None
    keys = store.keys
    if words[0] == "damaged":
        try:
            fields = store.fields(run_id) or {}
        except DamagedRun:  # not even a hash
            fields = {}
        return Standing(fields={**fields, "id": run_id}, now=store.time(), damage=words[1])
    known = store.fields(run_id)
    if known is None:
        return None
    queue = known.get("queue", "")
    if queue not in keys.queue_names:
        queue = keys.queue_names[0]  # damaged; whatever is said of its list, the verdict will say that first
    for _ in range(LOOKS):
        # Not as one transaction: a full server refuses those, reads included. A run that moved meanwhile is looked at again.
        with store._answered(), store.redis.pipeline(transaction=False) as pipe:
            pipe.hgetall(keys.run(run_id))
            pipe.time()
            pipe.zscore(keys.due, run_id)
            pipe.hgetall(keys.queues)
            pipe.llen(queue)
            pipe.lpos(queue, known.get("message", ""), rank=-1, maxlen=SEARCHED)
            pipe.zrange(keys.workers, 0, -1, withscores=True)
            pipe.hgetall(keys.announcements)
            pipe.hget(keys.paused, known.get("flow", ""))
            pipe.hgetall(keys.run(run_id))
            before, (seconds, micros), due, queues, length, index, beats, infos, paused, fields = pipe.execute()
        if before == fields:
            break
    if not fields:
        return None
    return Standing(
        fields=fields,
        now=store.now if store.now is not None else seconds * 1000 + micros // 1000,
        due=due,
        queues=queues,
        length=length if lengths is None else lengths.get(queue),
        place=None if index is None else length - index,
        workers=[WorkerSeen(name, float(beat), json.loads(infos[name])) for name, beat in beats if name in infos],
        paused=paused,
    )
