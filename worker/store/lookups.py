"""Reads for diagnosis: snapshots of runs, broker queues, due runs, and the keys of one run.

The keys of a run are found even if the run is damaged.
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
from perdure.worker.store.keys import ROLES, Keys
from perdure.worker.store.refusals import REFUSALS, refusal_code, reply_of
from perdure.worker.store.transitions import Store

logger = logging.getLogger("perdure.store")

#: Servers whose queues of flow sets this process may not read. The log has a line about each.
_denied_at: set[str] = set()


@dataclass(frozen=True)
class QueueLength:
    """The length and the next message of one queue: of a role, or of a flow set of a role.

    Attributes:
        queue: the name of the queue.
        length: the number of messages. None if the queue is on another broker that did not report
            it.
        next: the message that is consumed next. None if the list on the state server is empty.
        pushed: the number of the newest message that was pushed. None if none was, or for a flow
            set.
        taken: the number of the newest message whose round was claimed. None if none was, or for a
            flow set.
    """

    role: str
    queue: str
    length: int | None
    next: str | None
    pushed: str | None = None
    taken: str | None = None


def lines(store: Store, lengths: Mapping[str, int] | None = None) -> list[QueueLength]:
    """Return length, counters and next message of each role's queue.

    One exchange reads all of them.

    Args:
        lengths: the queue lengths on another broker, by queue name. Empty: that broker does not
            answer. None: the queues are on the state server, and their lengths are read there.
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
    """Return the role of each flow-set queue that a live worker consumes, by queue name.

    If no worker consumes such a queue any longer, the sweep moves its messages to the role's queue.

    Args:
        now: the time of the state server (ms).
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
    """Return length and next message of each flow-set queue.

    One exchange reads all of them. The result is empty if this user may not read the queues, as
    with access lists of older versions. A log line reports that once.

    Args:
        queues: the role of each queue, by queue name.
        lengths: the queue lengths on another broker, by queue name. Empty: that broker does not
            answer. None: the queues are on the state server, and their lengths are read there.
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
    """Log that the queues of flow sets cannot be read, once for each server."""
    if store.place not in _denied_at:
        _denied_at.add(store.place)
        logger.warning(
            "rounds that wait in %s are not counted: this login may not read the queues of flow "
            "sets. Give it the rights of config/redis.acl (%%R~...flows-*): %s",
            ", ".join(sorted(queues)),
            error,
        )


def due_first(store: Store, limit: int) -> list[str]:
    """Return the ids of the first runs of the due set, the longest overdue first.

    Args:
        limit: the maximum number of ids.
    """
    with store._answered():
        return cast(list[str], store.redis.zrange(store.keys.due, 0, limit - 1))


def oldest(store: Store, index: str, limit: int) -> list[str]:
    """Return the ids of the oldest runs of an index, the oldest first.

    Args:
        index: the name of the index.
        limit: the maximum number of ids.
    """
    with store._answered():
        return cast(list[str], store.redis.zrange(store.keys.index(index), 0, limit - 1))


def write_refusal(store: Store) -> tuple[str, str] | None:
    """Return the server's error reply to PING, and advice.

    A server that cannot write, for example because its disk is full, answers PING with an error
    reply, too. It still answers reads.

    Returns:
        The error reply with its code, and advice. Neither has the server's address. None if PING
        succeeds: the server accepts writes.

    Raises:
        StoreUnavailable: the server does not answer.
        AccessDenied: this user may not use the server.
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
    """Return whether any key of a run exists.

    It may be the key of the run's hash, history, events or artifacts, and of any type.
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
    """Return a run's idempotency key.

    If the run is damaged and its hash does not have the key, all idempotency keys are searched with
    SCAN.

    Returns:
        None if the run has no idempotency key, or if the search does not find one.

    Raises:
        AccessDenied: this user may not use SCAN, which shows the names of all keys on the server.
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
    """Return whether an idempotency key belongs to a run.

    Args:
        key: the Redis key of the idempotency key.
    """
    return store.redis.type(key) == "string" and str(store.redis.get(key)).endswith(f" {run_id}")


#: How many messages, from the consuming end, are searched for the run's own. The sweep searches the
#: same number.
SEARCHED = 256
#: How often a run is read again if it changes during the read.
LOOKS = 5


def look(store: Store, run_id: str, lengths: Mapping[str, int] | None = None) -> RunSnapshot | None:
    """Return a snapshot of a run with its surroundings.

    The argument ``lengths`` is that of ``look_at_all``.

    Returns:
        None if there is no such run.

    Raises:
        StoreUnavailable: the server does not answer.
    """
    return look_at_all(store, [run_id], lengths).get(run_id)


def look_at_all(
    store: Store, run_ids: Sequence[str], lengths: Mapping[str, int] | None = None
) -> dict[str, RunSnapshot]:
    """Return snapshots of several runs, by run id.

    They are in the order of ``run_ids``. A snapshot has the run and its surroundings: its queue,
    its due time, the workers and the pause of its flow. A damaged run has a snapshot with a text
    about the damage. Runs that do not exist are left out.

    Three exchanges read all runs. Another exchange reads the runs that changed meanwhile. Each run
    that waits for children needs some more.

    Args:
        lengths: the queue lengths on another broker, by queue name. Empty: that broker does not
            answer. None: the queues are on the state server, and their lengths are read there.

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
    """Return the snapshot of each run, and whether the run changed since ``known`` was read.

    Args:
        known: the hash of each run from an earlier read, by run id.
        lengths: as in ``look_at_all``.
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
    """Return redirected messages' flow-set queues, by run id.

    A run is left out if the message of its current round was not redirected (redirect_round.lua).
    If this user may not read these queues, a log line reports it once and the result is empty.

    Args:
        known: the hash of each run, by run id.
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
    """Return the snapshot, completed by the child runs for which the run waits.

    It is returned unchanged if the run is damaged, or does not wait for children.
    """
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
    """Return whether ``ancestor`` is above a run in its tree.

    False if ``run_id`` does not exist. A run without a parent counts as below itself.
    """
    seen: set[str] = set()
    while run_id not in seen:
        seen.add(run_id)
        [fields] = store.reads.some_fields([run_id], ["parent"])
        run_id = fields.get("parent", run_id)
        if run_id == ancestor:
            return True
    return False
