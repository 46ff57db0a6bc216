"""Reads for diagnosis: one run with its surroundings, the broker queues, and the keys of one run.

The queues come with the runs that are due next. The keys of a run are found even if it is damaged.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

import redis

from perdure.worker.domain.fleet import RunSnapshot, WorkerInfo
from perdure.worker.domain.record import awaited
from perdure.worker.errors import AccessDenied, DamagedRun
from perdure.worker.store.connection import REFUSALS, refusal_code, reply_of
from perdure.worker.store.keys import ROLES, Keys
from perdure.worker.store.transitions import Store

logger = logging.getLogger("perdure.store")

#: Servers whose queues of flow sets this process may not read. The log has a line about each.
_denied_at: set[str] = set()


@dataclass(frozen=True)
class QueueLength:
    """One queue of a role, or of a flow set of the role.

    Attributes:
        length: number of messages; None if the queue is on another broker and its length unknown.
        next: the message that is consumed next; None if the list on the state server is empty.
        pushed: number of the newest message that was pushed.
        taken: number of the newest message that was claimed.
    """

    role: str
    queue: str
    length: int | None
    next: str | None
    pushed: str | None = None
    taken: str | None = None


def lines(store: Store, lengths: Mapping[str, int] | None = None) -> list[QueueLength]:
    """Return each role's queue: length, counters and next message.

    All are read in one exchange.

    Args:
        lengths: the queue lengths on another broker. Empty: the broker does not answer.
    """
    keys = store.keys
    names = {role: keys.queue(role) for role in ROLES}
    with store._answered(), store.redis.pipeline(transaction=False) as pipe:
        for queue in names.values():
            pipe.hmget(keys.queues, [f"{queue}:pushed", f"{queue}:cursor"])
            pipe.llen(queue)
            pipe.lrange(queue, -1, -1)
        replies = pipe.execute()
    queues = []
    for position, (role, queue) in enumerate(names.items()):
        (pushed, taken), length, texts = replies[3 * position : 3 * position + 3]
        if lengths is not None:
            length = lengths.get(queue)
        queues.append(QueueLength(role, queue, length, _first(texts), pushed, taken))
    return queues


def queues_of_sets(
    keys: Keys, workers: Iterable[WorkerInfo], now: float, heartbeat_seconds: float
) -> dict[str, str]:
    """Return the queues of flow sets that live workers consume, each with its role.

    If no worker consumes such a queue, the sweep pushes its messages to the role's queue.
    """
    return {
        name: role
        for worker in workers
        if worker.is_alive(now, heartbeat_seconds)
        for role in ROLES
        for name in worker.queues_of_sets(keys.queue(role))
    }


def lines_of_sets(
    store: Store, queues: Mapping[str, str], lengths: Mapping[str, int] | None = None
) -> list[QueueLength]:
    """Return length and next message of flow-set queues.

    All are read in one exchange. If this user may not read them, a log line reports it once and
    the result is empty. Older access lists do not have these queues.

    Args:
        queues: the role of each queue, by its name.
        lengths: the queue lengths on another broker. Empty: the broker does not answer.
    """
    if not queues:
        return []
    try:
        with store._answered(), store.redis.pipeline(transaction=False) as pipe:
            for queue in queues:
                pipe.llen(queue)
                pipe.lrange(queue, -1, -1)
            replies = pipe.execute()
    except AccessDenied as error:
        _log_denied(store, queues, error)
        return []
    return [
        QueueLength(role, queue, length if lengths is None else lengths.get(queue), _first(texts))
        for (queue, role), length, texts in zip(
            queues.items(), replies[::2], replies[1::2], strict=True
        )
    ]


def _first(texts: list[str]) -> str | None:
    return texts[0] if texts else None


def _log_denied(store: Store, queues: Iterable[str], error: AccessDenied) -> None:
    """Log once that queues of flow sets are unreadable."""
    if store.place not in _denied_at:
        _denied_at.add(store.place)
        logger.warning(
            "rounds that wait in %s are not counted: this login may not read the queues of flow "
            "sets. Give it the rights of config/redis.acl (%%R~...flows-*): %s",
            ", ".join(sorted(queues)),
            error,
        )


def due_first(store: Store, limit: int) -> list[str]:
    """Return the first runs of the due set.

    These are at most ``limit`` ids, the longest overdue first.
    """
    with store._answered():
        return cast(list[str], store.redis.zrange(store.keys.due, 0, limit - 1))


def oldest(store: Store, index: str, limit: int) -> list[str]:
    """Return the ids of the oldest runs in an index.

    There are at most ``limit``, in the order of the index's times.
    """
    with store._answered():
        return cast(list[str], store.redis.zrange(store.keys.index(index), 0, limit - 1))


def write_refusal(store: Store) -> tuple[str, str] | None:
    """Return why the server refuses all writes, by PING.

    A server with a full disk refuses a PING like a write, and still answers reads.

    Returns:
        The server's reply, which names no address, and the advice. None if it takes writes.

    Raises:
        StoreUnavailable: the server does not answer.
    """
    with store._answered():
        try:
            store.redis.ping()
        except redis.ResponseError as error:
            code = refusal_code(error)
            if code is None:
                raise
            return f"{code} {reply_of(error, code)}", REFUSALS[code]
    return None


def is_there(store: Store, run_id: str) -> bool:
    """Return whether a key of the run exists, of any type.

    These are the keys of its hash, history, events and artifacts.
    """
    keys = store.keys
    with store._answered():
        return (
            store.redis.exists(
                keys.run(run_id), keys.memory(run_id), keys.events(run_id), keys.artifacts(run_id)
            )
            > 0
        )


def idempotency_key(store: Store, run_id: str) -> str | None:
    """Return a run's idempotency key, or None.

    If the run's hash is damaged and does not have it, all idempotency keys are searched.

    Raises:
        AccessDenied: the search needs SCAN, which shows a user the names of all keys on the server.
    """
    with store._answered("SCAN, to find the idempotency key of a damaged run"):
        stored = (
            store.redis.hget(store.keys.run(run_id), "idem")
            if store.redis.type(store.keys.run(run_id)) == "hash"
            else None
        )
        if store.runs.examine(run_id) == ["ok"]:
            return cast("str | None", stored)
        if stored is not None and _is_of(store, store.keys.idempotency(str(stored)), run_id):
            return str(stored)
        prefix = store.keys.idempotency("")
        for key in store.redis.scan_iter(match=f"{prefix}*", count=1000, _type="string"):
            if _is_of(store, str(key), run_id):
                return str(key).removeprefix(prefix)
    return None


def _is_of(store: Store, key: str, run_id: str) -> bool:
    """Return whether ``key``, the Redis key of an idempotency key, belongs to this run."""
    return store.redis.type(key) == "string" and str(store.redis.get(key)).endswith(f" {run_id}")


#: How many messages, from the consuming end, are searched for the run's own. The sweep searches the
#: same number.
SEARCHED = 256
#: How often a run is read again if it changes during the read.
LOOKS = 5


def look(store: Store, run_id: str, lengths: Mapping[str, int] | None = None) -> RunSnapshot | None:
    """Return a snapshot of a run with its surroundings.

    None if there is no such run.

    Raises:
        StoreUnavailable: the server does not answer.
    """
    return look_at_all(store, [run_id], lengths).get(run_id)


def look_at_all(
    store: Store, run_ids: Sequence[str], lengths: Mapping[str, int] | None = None
) -> dict[str, RunSnapshot]:
    """Return snapshots of several runs, by run id.

    They come in the order of ``run_ids``. A run's surroundings are its queue, its due time, the
    workers and the pause of its flow. Runs that do not exist are left out. Three exchanges read
    them all. Runs that changed meanwhile take one more, and each run that waits for children takes
    some.

    Args:
        lengths: the queue lengths on another broker. Empty: the broker does not answer.

    Raises:
        StoreUnavailable: the server does not answer.
    """
    found: dict[str, RunSnapshot] = {}
    sound = []
    for run_id, (word, *what) in zip(run_ids, store.runs.examine_all(run_ids), strict=True):
        if word == "damaged":
            found[run_id] = _damaged(store, run_id, what[0])
        elif word != "missing":
            sound.append(run_id)
    # The run's hash names its queue. So the hash is read first, and again with the rest.
    records = zip(sound, store.reads.records(sound), strict=True)
    unread = {run_id: fields for run_id, fields in records if fields}
    # Not a transaction, since a full server refuses transactions even for reads. Instead, a run
    # that changed during the read is read again.
    for _ in range(LOOKS):
        if not unread:
            break
        read = _read(store, unread, lengths)
        found |= {run_id: snapshot for run_id, (snapshot, _) in read.items()}
        unread = {run_id: unread[run_id] for run_id, (_, moved) in read.items() if moved}
    # A run that was deleted during the read has no fields.
    there = [run_id for run_id in run_ids if run_id in found and found[run_id].fields]
    return {run_id: _with_children(store, run_id, found[run_id]) for run_id in there}


def _damaged(store: Store, run_id: str, what: str) -> RunSnapshot:
    try:
        fields = store.reads.fields(run_id) or {}
    except DamagedRun:  # The key is not a hash.
        fields = {}
    return RunSnapshot(fields={**fields, "id": run_id}, now=store.time(), damage=what)


def _read(
    store: Store, known: Mapping[str, Mapping[str, str]], lengths: Mapping[str, int] | None
) -> dict[str, tuple[RunSnapshot, bool]]:
    """Return each run's snapshot, and whether the run changed during the read.

    Args:
        known: the runs' hashes from an earlier read.
    """
    keys = store.keys
    # The verdict reports an unknown queue before it looks at the queue.
    queues = {
        run_id: queue
        if (queue := fields.get("queue", "")) in keys.queue_names
        else keys.queue_names[0]
        for run_id, fields in known.items()
    }
    if lengths is None:
        # Another broker is asked for the lengths of the roles' queues alone.
        queues |= _queues_handed_to(store, known)
    with store._answered(), store.redis.pipeline(transaction=False) as pipe:
        for run_id in known:
            pipe.hgetall(keys.run(run_id))
        pipe.time()
        pipe.hgetall(keys.queues)
        pipe.zrange(keys.workers, 0, -1, withscores=True)
        pipe.hgetall(keys.announcements)
        used = sorted(set(queues.values()))
        for queue in used:
            pipe.llen(queue)
        for run_id, fields in known.items():
            pipe.zscore(keys.due, run_id)
            pipe.lpos(queues[run_id], fields.get("message", ""), rank=-1, maxlen=SEARCHED)
            pipe.hget(keys.paused, fields.get("flow", ""))
        for run_id in known:
            pipe.hgetall(keys.run(run_id))
        replies = iter(pipe.execute())
    before = {run_id: next(replies) for run_id in known}
    (seconds, micros), counters, beats, infos = (next(replies) for _ in range(4))
    lists = {queue: next(replies) for queue in used}
    workers = [
        WorkerInfo(name, float(beat), json.loads(infos[name]))
        for name, beat in beats
        if name in infos
    ]
    around = {run_id: (next(replies), next(replies), next(replies)) for run_id in known}
    now = store.now if store.now is not None else seconds * 1000 + micros // 1000
    read = {}
    for run_id, (due, index, paused) in around.items():
        fields, queue = next(replies), queues[run_id]
        snapshot = RunSnapshot(
            fields=fields,
            now=now,
            due=due,
            queues=counters,
            length=lists[queue] if lengths is None else lengths.get(queue),
            place=None if index is None else lists[queue] - index,
            workers=workers,
            paused=paused,
        )
        read[run_id] = snapshot, fields != before[run_id]
    return read


def _queues_handed_to(store: Store, known: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return redirected messages' queues, by run id.

    They are queues of flow sets. Runs whose message was not redirected in this round
    (redirect_round.lua) are left out. So are all if this user may not read the queues.
    """
    queues = {}
    for run_id, fields in known.items():
        *handed_round, queue = fields.get("handed_to", "").split(" ", 2)
        if (
            handed_round == [fields.get("epoch"), fields.get("step")]
            and queue.startswith(f"{fields.get('queue')}.")
            and store.keys.is_of_rounds(queue)
        ):
            queues[run_id] = queue
    if queues:
        try:
            with store._answered():
                store.redis.llen(next(iter(queues.values())))
        except AccessDenied as error:
            _log_denied(store, queues.values(), error)
            return {}
    return queues


def _with_children(store: Store, run_id: str, snapshot: RunSnapshot) -> RunSnapshot:
    """Return the snapshot with the run's awaited children."""
    names = [] if snapshot.damage else awaited(snapshot.fields)["children"]
    if not names:
        return snapshot
    groups = {name: store.family.counts(run_id, name) for name in names}
    nonce = snapshot.fields.get("nonce", "")
    return replace(
        snapshot,
        groups=groups,
        asking=[
            child
            for name, counts in groups.items()
            for child in store.family.asking(run_id, nonce, name, counts.get("started", 0))
        ],
        held=[
            child
            for name, counts in groups.items()
            if counts.get("held")
            for child in store.family.held(run_id, nonce, name)
        ],
    )


def is_below(store: Store, run_id: str, ancestor: str) -> bool:
    """Return whether a run is below the run ``ancestor`` in its tree."""
    seen: set[str] = set()
    while run_id not in seen:
        seen.add(run_id)
        [fields] = store.reads.some_fields([run_id], ["parent"])
        run_id = fields.get("parent", run_id)
        if run_id == ancestor:
            return True
    return False
