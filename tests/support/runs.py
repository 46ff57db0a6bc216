"""Runs made and moved by the transitions alone, without client, Celery or flow: one call a sentence
of a test.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from types import MappingProxyType
from typing import Any

from perdure import Client
from perdure.worker.domain.execution_state import ExecutionState
from perdure.worker.domain.record import Record, digest_of, version_of
from perdure.worker.engine.fast import affinity
from perdure.worker.store import Claim, ClaimRefused, Prefetched, PrefetchRequest, Store
from perdure.worker.store.keys import CHILD_INDEXES, INDEXES

#: The clock of tests starts here (ms), and moves when a test says so. In the future: servers expire
#: keys by their own clock.
START = 4_000_000_000_000
LEASE = 4_000
GRACE = 2_000
RETENTION = 1_000_000
#: The phase's index, as docs/operations/states.md has it.
INDEX = {
    "queued": "live", "leased": "live", "waiting": "live", "parked": "live", "interrupted": "interrupted",
    "stopped": "stopped", "completed": "completed", "errored": "errored",
}  # fmt: skip
DIGEST_FREE = {
    "retention": str(RETENTION),
    "resend": str(GRACE),
    "schema": version_of(()),
    "flow": "ring",
    "labels": "{}",
}
#: The goal of runs whose messages are like Celery's.
FETCHED = "is fetched"
_claims = count(1)


def message(run_id: str, epoch: int, step: int) -> str:
    """Return a stand-in for the broker message of a round; scripts pass it on unread."""
    return f"{run_id}/{epoch}/{step}"


def named(run_id: str, epoch: int, step: int) -> str:
    """Return the same, with the run's id at the place of Celery's messages, where the prefetching
    commit finds it.
    """
    return f'"argsrepr": "(\'{run_id}\' {message(run_id, epoch, step)}'


def parts(text: str) -> tuple[str, int, int]:
    """Split such a message, of either kind, into run, epoch and step."""
    run_id, epoch, step = text.rpartition(" ")[2].split("/")
    return run_id, int(epoch), int(step)


class Fetches:
    """A store whose commits prefetch by ``wish``; ``fetched`` is the result of the last one."""

    def __init__(self, store: Store, wish: PrefetchRequest) -> None:
        self.store, self.wish, self.keys = store, wish, store.keys
        self.fetched: Prefetched | None = None

    def commit(self, run_id: str, **given: Any) -> tuple[str, str]:
        word, detail, self.fetched, _ = self.store.rounds.commit_and_fetch(
            run_id, fetch=self.wish, **given
        )
        return word, detail


def record(store: Store, role: str = "controller", **extra: str) -> dict[str, str]:
    """Return a new run's fields at node Controller."""
    fields = {
        **ExecutionState(current_node="Controller").to_fields(),
        **DIGEST_FREE,
        "goal": "g",
        "inputs": "{}",
    }
    fields |= {"interrupt_before": "[]", "interrupt_after": "[]", "cycles": "0", "turns": "0"}
    fields |= {"task": f"perdure.{role}_round", "queue": store.keys.queue(role), **extra}
    return {**fields, "digest": digest_of(fields)}


def submit(
    store: Store,
    run_id: str = "r",
    *,
    nonce: str | None = None,
    role: str = "controller",
    **options: Any,
) -> tuple[str, str]:
    """Submit a run; ``fields`` are added to its hash, ``fetchable``: with messages like Celery's;
    other options go to store.runs.submit.
    """
    extra = dict(options.pop("fields", {}))
    epoch, step = 0, options.get("step", 0)
    if options.get("phase") == "interrupted":
        extra = {**pause_at("Controller", "before"), "i_id": f"0:{step}", **extra}
        epoch = 1
    if options.pop("fetchable", False):
        extra["goal"] = FETCHED
    fields = record(store, role, **extra)
    text = _like({**fields, "id": run_id}, epoch, step)
    return store.runs.submit(
        run_id, fields, nonce=nonce or f"nonce-{run_id}", message=text, **options
    )


def new_run(store: Store, run_id: str = "r", **options: Any) -> str:
    """Submit a run; return its id."""
    assert submit(store, run_id, **options) == ("ok", run_id)
    return run_id


def handed_on(client: Client, count: int, flow: str = "ledger") -> tuple[str, list[str]]:
    """Submit runs whose messages are forwarded to a live worker that plays their flow; return the
    queue of its flow set, and their ids.
    """
    store = client._store
    queue = store.keys.queue_of_set("controller", "0a")
    able = {"role": "controller", "lists": [queue], "flows": {flow: {}}}
    store.fleet.announce("able", able, store.time(), 0)
    ids = [client.submit(flow, "x", inputs={"rounds": 1}).id for _ in range(count)]
    for run_id in ids:
        assert store.redis.rpop(store.keys.queue("controller")) is not None
        assert isinstance(try_claim(store, run_id, known=("other",)), ClaimRefused)
        assert store.rounds.redirect(run_id, queue=queue, to="able", by="w1")[0] == "ok"
    return queue, ids


def hash_of(store: Store, run_id: str = "r") -> dict[str, str]:
    """Return the run's hash, which must exist."""
    fields = store.reads.fields(run_id)
    assert fields is not None, f"run {run_id} has no hash"
    return fields


def phase(store: Store, run_id: str = "r") -> str:
    return hash_of(store, run_id)["phase"]


def at(store: Store, run_id: str = "r") -> tuple[int, int]:
    """Return epoch and step."""
    fields = hash_of(store, run_id)
    return int(fields["epoch"]), int(fields["step"])


def try_claim(
    store: Store,
    run_id: str = "r",
    *,
    epoch: int | None = None,
    step: int | None = None,
    claim: str | None = None,
    owner: str = "w1",
    known: tuple[str, ...] = ("ring",),
    lease: int = LEASE,
    back: int = 1_000,
) -> Claim | ClaimRefused:
    """Deliver a message; by default of the run's epoch and step, each time as a new delivery."""
    if epoch is None or step is None:
        now_epoch, now_step = at(store, run_id)
        epoch, step = now_epoch if epoch is None else epoch, now_step if step is None else step
    return store.rounds.claim(
        run_id,
        epoch=epoch,
        step=step,
        claim=claim or f"delivery-{next(_claims)}",
        owner=owner,
        lease=lease,
        known=known,
        back=back,
    )


def claim(store: Store, run_id: str = "r", **options: Any) -> Claim:
    """Claim with a delivery that wins; the message is taken from its list."""
    store.redis.lrem(hash_of(store, run_id)["queue"], -1, hash_of(store, run_id)["message"])
    granted = try_claim(store, run_id, **options)
    assert isinstance(granted, Claim), granted
    return granted


def by_token_alone(granted: Claim) -> Claim:
    """Return the claim as workers commit it that do not name their claim yet: nothing but the token
    says whose it is.
    """
    return granted._replace(id="")


def commit(store: Store | Fetches, granted: Claim, kind: str, **options: Any) -> tuple[str, str]:
    """Commit the granted round, in any present state of the run."""
    fields = granted.fields
    if kind in ("give_back", "park") and not fields["message"]:
        options["own"] = _message(granted, 0, 0)
    rounds = store if isinstance(store, Fetches) else store.rounds
    return rounds.commit(
        fields["id"], epoch=int(fields["epoch"]), step=int(fields["step"]), token=granted.token, claim=granted.id or None, kind=kind,
        idempotency_key=fields.get("idem"), **options,
    )  # fmt: skip


def commit_next(
    store: Store | Fetches,
    granted: Claim,
    node: str = "Executor",
    additions: tuple[str, ...] = ("turn",),
    options: Mapping[str, Any] = MappingProxyType({}),
    **fields: str,
) -> tuple[str, str]:
    """Commit the round, with ``node`` next."""
    return commit(
        store,
        granted,
        "next",
        message=_message(granted, 0, 1),
        fields=_next(store, granted, node, additions, fields),
        additions=additions,
        **options,
    )


def stay(
    store: Store,
    granted: Claim,
    node: str = "Controller",
    additions: tuple[str, ...] = ("turn",),
    next_claim: str = "w1.next",
    forget: int | None = None,
    keep_events: int | None = None,
    data: str | None = None,
    **fields: str,
) -> Claim | None:
    """Commit and stay, with ``node`` next.

    Return the claim of its next round, or None if it needs a full commit.
    """
    changed = _next(store, granted, node, additions, fields)
    run = Record(granted.fields)
    stayed = store.rounds.commit_and_continue(
        run.id, epoch=run.epoch, step=run.step, token=granted.token, claim=granted.id, next_claim=next_claim, queue=changed["queue"],
        fields=changed, additions=additions, mailbox=granted.fields.get("mailbox"),
        forget=forget, keep_events=keep_events, data=data,
    )  # fmt: skip
    return stayed and affinity.next_claim(
        run,
        granted,
        changed,
        additions,
        "",
        stayed,
        next_claim,
        forget if isinstance(forget, int) else 0,
    )


def commit_end(
    store: Store | Fetches,
    granted: Claim,
    additions: tuple[str, ...] = (),
    options: Mapping[str, Any] = MappingProxyType({}),
    **fields: str,
) -> tuple[str, str]:
    """Commit the round, and end the run."""
    return commit(
        store,
        granted,
        "end",
        fields={"answer": '"42"', "output": "{}", **fields},
        additions=additions,
        **options,
    )


def park(
    store: Store | Fetches, granted: Claim, wait: str, signals: Mapping[str, int], ms: int | None
) -> tuple[str, str]:
    """Park the node until this number of unread signals of one of these names, or for a time."""
    lines = "\n".join(f"{name} {count}" for name, count in signals.items())
    return commit(store, granted, "park", wait=wait, wait_for=lines, wait_ms=ms, wait_over="null")


def signal(
    store: Store, name: str = "paid", payload: str = "1", run_id: str = "r", **options: Any
) -> list[str]:
    """Send the run a signal."""
    return store.signals.send(
        run_id,
        name=name,
        payload=payload,
        **{"most": 1_000, "names": 64, "size": 1 << 26, **options},
    )


def signal_topic(
    store: Store,
    topic: str = "order:1",
    name: str = "paid",
    payload: str = "1",
    **options: Any,
) -> list[str]:
    """Send a signal to the run that holds the topic, or will hold it within an hour."""
    bounds = {"most": 1_000, "names": 64, "size": 1 << 26, "most_waiting": 100}
    return store.signals.send_to_topic(
        topic,
        name=name,
        payload=payload,
        **{**bounds, "size_waiting": 1 << 20, "keep": 3_600_000, **options},
    )


def next_message(store: Store) -> tuple[str, str]:
    """Return the Celery task and the queue of the message that the sender of a signal brings."""
    return "perdure.controller_round", store.keys.queue("controller")


def wake(store: Store, run_id: str = "r") -> str:
    """Wake the run that has waited, with the message that the sender brings."""
    epoch, step, text = made(store, run_id)
    return store.signals.wake(run_id, epoch=int(epoch), step=int(step), message=text)[0]


def pause_next(
    store: Store | Fetches,
    granted: Claim,
    node: str = "Executor",
    kind: str = "before",
    **fields: str,
) -> tuple[str, str]:
    """Commit the round; a person is asked at the boundary to ``node``."""
    pause = pause_at(node if kind == "before" else granted.fields["current_node"], kind)
    fields = {**_next(store, granted, node, ("turn",), {}), **pause, **fields}
    return commit(
        store,
        granted,
        "pause_next",
        message=_message(granted, 1, 1),
        fields=fields,
        additions=("turn",),
    )


def commit_unfinished(
    store: Store | Fetches, granted: Claim, node: str = "Controller"
) -> tuple[str, str]:
    """Commit the round of a run that has used up its cycles; ``node`` would have been next."""
    fields = {
        **_next(store, granted, node, ("turn",), {}),
        "answer": '"none"',
        "output": "{}",
        "unfinished": "3",
    }
    return commit(
        store, granted, "end", message=_message(granted, 1, 1), fields=fields, additions=("turn",)
    )


def pause_end(
    store: Store | Fetches, granted: Claim, node: str | None = None, **fields: str
) -> tuple[str, str]:
    """Commit the round, and end the run once a person has looked.

    ``node`` would have been next, if only the cycles are used up.
    """
    end = {
        "answer": '"42"',
        "output": "{}",
        "ending": "1",
        "turns": str(int(granted.fields["turns"]) + 1),
    }
    end |= (
        {**_next(store, granted, node, ("turn",), {}), "unfinished": "3"}
        if node is not None
        else {}
    )
    fields = {**end, **pause_at(granted.fields["current_node"], "after"), **fields}
    message = {} if node is None else {"message": _message(granted, 1, 1)}
    return commit(store, granted, "pause_next", fields=fields, additions=("turn",), **message)


def pause_here(store: Store | Fetches, granted: Claim, **fields: str) -> tuple[str, str]:
    """Ask a person from the node, and commit nothing."""
    pause = {**pause_at(granted.fields["current_node"], "node"), "i_reason": "may I?", **fields}
    return commit(store, granted, "pause_here", message=_message(granted, 1, 0), fields=pause)


def fail_round(
    store: Store | Fetches,
    granted: Claim,
    max_failures: int = 3,
    delay: int = 1_000,
    **options: Any,
) -> tuple[str, str]:
    """Fail the round with an error."""
    return commit(
        store, granted, "failed", error="boom", delay=delay, max_failures=max_failures, **options
    )


def stop(store: Store, mode: str = "graceful", op: str = "stop-1", run_id: str = "r") -> list[str]:
    return store.runs.request_stop(run_id, op=op, mode=mode, by="ann", reason="enough")


def resume(
    store: Store, op: str = "resume-1", run_id: str = "r", epoch: int | None = None, **options: Any
) -> list[str]:
    """Resume as a client does that has just looked: by default with its epoch and interrupt."""
    seen = hash_of(store, run_id)
    epoch = int(seen["epoch"]) if epoch is None else epoch
    options = {"interrupt": seen.get("i_id"), **options}
    return store.runs.resume(run_id, op=op, epoch=epoch, **_messages(seen, epoch), **options)


def retry(
    store: Store, op: str = "retry-1", run_id: str = "r", epoch: int | None = None
) -> list[str]:
    """Retry as a client does that has just looked."""
    seen = hash_of(store, run_id)
    epoch = int(seen["epoch"]) if epoch is None else epoch
    return store.runs.retry(
        run_id, op=op, epoch=epoch, idempotency_key=seen.get("idem"), **_messages(seen, epoch)
    )


def sweep(store: Store, **options: Any) -> list[tuple[str, str]]:
    """Sweep once; a clock set forward by hand is a silence to it, ``sweep_after`` is not."""
    return store.fleet.sweep(**{"lease": LEASE, "max_losses": 3, "jitter": 0.0, **options}).report


def clock(store: Store) -> int:
    """Return the time that the test has set (ms)."""
    assert store.now is not None
    return store.now


def later(store: Store, ms: int) -> None:
    """Move the clock without a sweep: half a lease or more is a silence to the next sweep."""
    store.now = clock(store) + ms


def advance(store: Store, ms: int) -> None:
    """Move the clock while sweepers are at work, so that it is no silence."""
    later(store, ms)
    store.redis.hset(store.keys.queues, "swept_at", clock(store))


def due_in(store: Store, run_id: str = "r") -> int:
    """Return the time until the run is due (ms), which it must be."""
    at = due(store, run_id)
    assert at is not None, f"run {run_id} is not due at any time"
    return at - clock(store)


def sweep_after(store: Store, ms: int, **options: Any) -> list[tuple[str, str]]:
    """Sweep once after ``ms`` with sweepers at work."""
    advance(store, ms)
    return sweep(store, **options)


def sweep_and_bring(store: Store, ms: int, **options: Any) -> list[tuple[str, str]]:
    """Sweep once ``ms`` have passed, and again with the requested messages, as a worker does;
    return the results for these runs.
    """
    asked = [run_id for run_id, word in sweep_after(store, ms, **options) if word == "unmade"]
    assert asked, "no message was asked for"
    return [
        told
        for told in sweep(store, made={run_id: made(store, run_id) for run_id in asked}, **options)
        if told[0] in asked
    ]


def made(store: Store, run_id: str = "r", steps: int = 0) -> tuple[str, str, str]:
    """Return the message that a worker makes for the run: epoch, step and text; ``steps``: of a
    later round.
    """
    fields = hash_of(store, run_id)
    epoch, step = fields["epoch"], str(int(fields["step"]) + steps)
    return epoch, step, _like(fields, int(epoch), int(step))


def messages(store: Store, role: str = "controller") -> list[str]:
    """Return the list of the role, the next message to be consumed first."""
    found: Any = store.redis.lrange(store.keys.queue(role), 0, -1)
    return list(reversed(found))


def take(store: Store, role: str = "controller") -> str | None:
    """Pop a message as a worker does; None if the list is empty. To forget it is to lose it."""
    found: Any = store.redis.rpop(store.keys.queue(role))
    return None if found is None else str(found)


def due(store: Store, run_id: str = "r") -> int | None:
    """Return when the run is due (ms), None if it is not."""
    score: Any = store.redis.zscore(store.keys.due, run_id)
    return None if score is None else int(score)


def events(store: Store, run_id: str = "r", kind: str | None = None) -> list[dict[str, str]]:
    """Return the run's events, oldest first, without ids."""
    return [
        entry for _, entry in store.events.read(run_id) if kind is None or entry["type"] == kind
    ]


def indexes(store: Store, run_id: str = "r") -> list[str]:
    """Return the indexes that list the run."""
    key = store.keys.run(run_id)
    is_child = store.redis.type(key) == "hash" and store.redis.hexists(key, "parent")
    suffix = ":children" if is_child else ""
    found = [
        name
        for name in (*INDEXES, *CHILD_INDEXES)
        if store.redis.zscore(store.keys.index(name), run_id) is not None
    ]
    return [name.removesuffix(suffix) if suffix else name for name in found]


def everything(store: Store) -> dict[str, Any]:
    """Return all keys of the server with their values and expiry: equal before and after a call
    without effect.

    kombu's bindings of queues (``_kombu.*``) are left out: workers of other tests leave them
    behind.
    """
    keys = sorted(key for key in store.redis.keys("*") if not key.startswith("_kombu."))
    # Three exchanges for any number of keys: tests call this thousands of times.
    with store.redis.pipeline(transaction=False) as pipe:
        read: dict[str, Callable[[str], Any]] = {
            "hash": pipe.hgetall,
            "list": lambda key: pipe.lrange(key, 0, -1),
            "stream": pipe.xrange,
            "zset": lambda key: pipe.zrange(key, 0, -1, withscores=True),
            "string": pipe.get,
            "set": pipe.smembers,
        }
        for key in keys:
            pipe.type(key)
            pipe.pexpiretime(key)
        reply = pipe.execute()
        for key, kind in zip(keys, reply[::2], strict=True):
            read[str(kind)](key)
        return dict(zip(keys, zip(pipe.execute(), reply[1::2], strict=True), strict=True))


def assert_lawful(store: Store, run_id: str = "r") -> None:
    """Check the laws of every run at every moment: I1, I2, the due set's promise, the index."""
    fields = hash_of(store, run_id)
    log = [int(entry["step"]) for entry in events(store, run_id, "committed")]
    where = {name: fields.get(name) for name in ("phase", "epoch", "step", "token")}
    begun = [int(entry["step"]) for entry in events(store, run_id, "submitted")]
    assert log == list(range(begun[0] if begun else 0, int(fields["step"]))), (
        f"I1: the log is {log}, {where}"
    )
    assert indexes(store, run_id) == [INDEX[fields["phase"]]], (
        f"listed in {indexes(store, run_id)}, {where}"
    )
    promised = fields["phase"] in ("queued", "leased", "waiting")
    if fields["phase"] == "interrupted":  # by its own deadline, or by the run's
        promised = "i_wait" in fields or "deadline" in fields
    if fields["phase"] == "parked":
        promised = due(store, run_id) is not None  # tests/store/test_waits.py
        assert "lease_until" not in fields, where
        # The end of a child pushes its parent's message.
        assert bool(fields["message"]) == (":" in fields["wait_for"]), where
    assert (due(store, run_id) is not None) == promised, f"due at {due(store, run_id)}, {where}"


def pause_at(node: str, kind: str) -> dict[str, str]:
    """Return the fields of an interrupt."""
    status = "interrupted_after" if kind == "after" else "interrupted_before"
    return {
        "i_kind": kind,
        "i_status": status,
        "i_node": node,
        "i_reason": f"interrupt_{kind}: {node}",
    }


def _next(
    store: Store | Fetches,
    granted: Claim,
    node: str,
    additions: tuple[str, ...],
    fields: Mapping[str, str],
) -> dict[str, str]:
    role = "executor" if node == "Executor" else "controller"
    turns = str(int(granted.fields["turns"]) + len(additions))
    return {
        "current_node": node,
        "task": f"perdure.{role}_round",
        "queue": store.keys.queue(role),
        "turns": turns,
        **fields,
    }


def _message(granted: Claim, epochs: int, steps: int) -> str:
    fields = granted.fields
    return _like(fields, int(fields["epoch"]) + epochs, int(fields["step"]) + steps)


def _messages(seen: Mapping[str, str], epoch: int) -> dict[str, Any]:
    step = int(seen["step"])
    return {
        "step": step,
        "message": _like(seen, epoch + 1, step),
        "after": _like(seen, epoch + 2, step),
    }


def _like(fields: Mapping[str, str], epoch: int, step: int) -> str:
    """Return a message of the run's kind."""
    return (named if fields["goal"] == FETCHED else message)(fields["id"], epoch, step)
