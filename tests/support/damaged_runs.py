"""Runs in every phase, and damage to their data.

A laboratory keeps the dump of each key, so that it can restore the run byte for byte.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import redis

from perdure import Client, Settings
from perdure.worker.engine.journal import StoreJournal
from perdure.worker.messaging.message import InvalidMessage, stored_round
from perdure.worker.store import Claim, Store
from perdure.worker.store.keys import Keys
from tests.support.in_process_runtime import runtime_of
from tests.support.leftover_keys import keys_under
from tests.support.os_processes import process_of
from tests.support.runs import LEASE

HURT, SOUND = "hurt", "sound"
ROUNDS = 4
ANSWER = f"counted down from {ROUNDS}"
PHASES = ("queued", "leased", "waiting", "interrupted", "stopped", "completed", "errored")


@dataclass(frozen=True)
class Kept:
    """The content of a key, as DUMP returns it, and its expiry.

    A hash's dump has its fields in an order that reading it can change, so hashes are compared by
    their fields.
    """

    dump: bytes = field(compare=False)
    expires: int
    content: Any


#: All that a server holds.
Held = dict[bytes, Kept]


class Lab:
    """Rounds are played here, in this process, and nothing happens by itself: each change comes
    from a call.

    The store's clock stands still.
    """

    def __init__(self, url: str) -> None:
        self.settings = Settings(redis_url=url, prefix="lab")
        self.client = Client(settings=self.settings)
        self.store: Store = self.client._store
        self.start = self.store.now = int(time.time() * 1000)
        self.raw = redis.Redis.from_url(url)
        self.snapshots: dict[str, Held] = {}

    def close(self) -> None:
        self.raw.close()
        self.client.close()

    def held(self) -> Held:
        # The heartbeat writes metrics at any time; they belong to no run.
        keys = sorted(key for key in self.raw.keys("*") if not key.startswith(b"lab:metrics"))
        with self.raw.pipeline() as pipe:
            for key in keys:
                pipe.dump(key)
                pipe.pexpiretime(key)
                pipe.hgetall(key)
            found = pipe.execute(raise_on_error=False)
        held = zip(keys, found[::3], found[1::3], found[2::3], strict=True)
        return {
            key: Kept(dump, expires, fields if isinstance(fields, dict) else dump)
            for key, dump, expires, fields in held
        }

    def put_back(self, held: Held, only: set[bytes] | None = None) -> None:
        """Make the server hold that again; ``only`` says which keys may differ."""
        with self.raw.pipeline() as pipe:
            if only is None:
                pipe.flushdb()
            for key in held if only is None else only:
                if key in held:
                    kept = held[key]
                    pipe.restore(
                        key, max(0, kept.expires), kept.dump, replace=True, absttl=kept.expires > 0
                    )
                else:
                    pipe.delete(key)
            pipe.execute()

    def fields(self, run_id: str = HURT) -> dict[bytes, bytes]:
        return dict(self.raw.hgetall(self.store.keys.run(run_id)))

    def key(self, run_id: str = HURT) -> str:
        return self.store.keys.run(run_id)

    def play(self) -> str | None:
        """Take one message, and play its round."""
        for queue in self.store.keys.queue_names:
            text: Any = self.store.redis.rpop(queue)
            if text is not None:
                try:
                    return runtime_of(self.client).rounds.run(*stored_round(text, queue)).word
                except InvalidMessage:
                    return "refused"  # as the guard would
        return None

    def claim(self) -> Claim:
        """Take the run's message from its list, and claim it for a process that plays for ever."""
        seen = self.store.reads.fields(HURT) or {}
        self.store.redis.lrem(seen["queue"], -1, seen["message"])
        granted = self.store.rounds.claim(
            HURT,
            epoch=int(seen["epoch"]),
            step=int(seen["step"]),
            claim="host:7.1",
            owner="w",
            lease=LEASE,
            known=["countdown"],
        )
        assert isinstance(granted, Claim)
        return granted

    def commit(self, granted: Mapping[str, str], kind: str, **options: Any) -> tuple[str, str]:
        return self.store.rounds.commit(
            HURT,
            epoch=int(granted["epoch"]),
            step=int(granted["step"]),
            token=granted["token"],
            kind=kind,
            idempotency_key="mine",
            **options,
        )

    def make(self, phase: str) -> None:
        """Make a run in that phase that has played some rounds, beside another that waits for its
        time.
        """
        self.raw.flushdb()
        self.store.now = self.start
        inputs = {"rounds": ROUNDS}
        self.client.submit(
            "countdown",
            "g",
            inputs,
            run_id=SOUND,
            idempotency_key="other",
            not_before=3600.0,
            labels={"of": SOUND},
        )
        pause: dict[str, Any] = {"interrupt_before": ["Executor"]} if phase == "interrupted" else {}
        self.client.submit(
            "countdown",
            "g",
            inputs,
            run_id=HURT,
            idempotency_key="mine",
            labels={"of": HURT},
            max_rounds=50,
            **pause,
        )
        for _ in range(
            1 if phase == "interrupted" else 2 * ROUNDS + 1 if phase == "completed" else 3
        ):
            self.play()
        if phase in ("leased", "waiting", "errored"):
            granted = {**self.claim().fields, "token": self.token()}
            self.write_down(granted)
            if phase == "leased":
                self.store.rounds.extend(
                    [(HURT, granted["token"], '{"done":1,"total":2,"text":""}')]
                )
                assert process_of(self.client, HURT) == 7
            else:
                self.commit(
                    granted,
                    "failed",
                    error="boom",
                    delay=1000,
                    max_failures=3,
                    **({"fatal": 1} if phase == "errored" else {}),
                )
        if phase == "stopped":
            self.client.request_stop(HURT)
        found = (self.store.reads.fields(HURT) or {})["phase"]
        assert found == phase, f"it is {found}"

    def write_down(self, granted: Mapping[str, str]) -> None:
        """Record an intent and a result, as the engine's journal writes them, and an artifact."""
        journal = StoreJournal(
            self.store, Claim(granted["token"], 1, 0, 0, 0, dict(granted), [], "host:7.1"), 1000
        )
        journal.intend(f"{HURT}:{granted['step']}:command")
        journal.record("charge", '"charged"')
        self.store.redis.hset(self.store.keys.artifacts(HURT), "page", "a text")

    def token(self) -> str:
        return (self.store.reads.fields(HURT) or {})["token"]

    def in_phase(self, phase: str) -> Held:
        """Give the server such a run; return its data."""
        if phase not in self.snapshots:
            self.make(phase)
            self.snapshots[phase] = self.held()
        self.store.now = self.start
        self.put_back(self.snapshots[phase])
        return self.snapshots[phase]


@contextmanager
def laboratory(url: str) -> Iterator[Lab]:
    made = Lab(url)
    try:
        yield made
    finally:
        made.close()


def damages(value: bytes, other: bytes | None, chance: random.Random) -> dict[str, bytes | None]:
    """Return the damages to a value; None is a field that is gone."""
    made: dict[str, bytes | None] = {
        "gone": None,
        "empty": b"",
        "cut short": value[: len(value) // 2],
        "of another run": other,
        "a word": b"many",
        "an array": b'[1,"x"]',
        "an object": b'{"a":{}}',
        "huge": b"9" * 15,
        "huger": b"9" * 400,
        "negative": b"-1",
        "a fraction": b"1.5",
        "nan": b"nan",
        "hexadecimal": b"0x10",
        "no text": b"\xff\xfe\x00",
    }
    if value:
        bent = bytearray(value)
        bent[chance.randrange(len(bent))] ^= 1 << chance.randrange(8)
        made["a bit flipped"] = bytes(bent)
    return {
        name: new
        for name, new in made.items()
        if new != value and not (name == "of another run" and new is None)
    }


def transitions(lab: Lab) -> dict[str, Callable[[], Any]]:
    """Return every transition, called as by a client that saw the run before it was damaged."""
    store = lab.store
    seen = store.reads.fields(HURT) or {}
    epoch, step, token = int(seen["epoch"]), int(seen["step"]), seen["token"]
    message = seen["message"]
    following = {
        "current_node": "Controller",
        "task": "perdure.controller_round",
        "queue": store.keys.queue("controller"),
        "digest": "x",
    }
    question = {
        "i_kind": "node",
        "i_status": "interrupted_before",
        "i_node": "Controller",
        "i_reason": "may I?",
    }

    def commit(kind: str, **options: Any) -> Callable[[], Any]:
        return lambda: store.rounds.commit(
            HURT, epoch=epoch, step=step, token=token, kind=kind, idempotency_key="mine", **options
        )

    def swept() -> list[str]:
        return [
            word
            for run_id, word in store.fleet.sweep(lease=LEASE, max_losses=3, jitter=0.0).report
            if run_id == HURT
        ] or ["not due"]

    def claimed() -> list[str]:
        answer = store.rounds.claim(
            HURT,
            epoch=epoch,
            step=step,
            claim="host:8.2",
            owner="v",
            lease=LEASE,
            known=["countdown"],
            schema="1",
            back=10,
        )
        return ["ok"] if isinstance(answer, Claim) else [answer.word]

    return {
        "claim": claimed,
        "commit next": commit(
            "next", message=message, fields=following, additions=["turn"], artifacts={"page": "new"}
        ),
        "commit end": commit("end", fields={"answer": "1", "output": "{}"}),
        "commit pause_next": commit(
            "pause_next", message=message, fields={**following, **question}
        ),
        "commit pause_here": commit("pause_here", message=message, fields=question),
        "commit failed": commit("failed", error="boom", delay=10, max_failures=3),
        "commit give_back": commit("give_back"),
        "commit damaged": commit("damaged", error="boom"),
        "intend": lambda: [
            store.rounds.intend(
                HURT, epoch=epoch, step=step, token=token, claim=None, key=f"{HURT}:{step}:k"
            )
        ],
        "record once": lambda: store.rounds.record_result(
            HURT, nonce=seen["nonce"], step=step, name="charge", value="1"
        ),
        "keep trace": lambda: store.runs.set_trace(HURT, nonce=seen["nonce"], trace="t"),
        "extend": lambda: store.rounds.extend([(HURT, token, "")]),
        "forfeit": lambda: store.rounds.release_dead_lease(
            HURT, epoch=epoch, step=step, process="host:7"
        ),
        "stop": lambda: store.runs.request_stop(HURT, op="o1", mode="graceful"),
        "stop now": lambda: store.runs.request_stop(HURT, op="o2", mode="now"),
        "resume": lambda: store.runs.resume(
            HURT,
            op="o3",
            epoch=epoch,
            step=step,
            message="m",
            after="a",
            interrupt=seen.get("i_id"),
            answer="1",
        ),
        "retry": lambda: store.runs.retry(
            HURT, op="o4", epoch=epoch, step=step, message="m", after="a", idempotency_key="mine"
        ),
        "quarantine": lambda: store.rounds.quarantine(
            HURT,
            epoch=str(epoch),
            step=str(step),
            message=message,
            error="e",
            idempotency_key="mine",
        ),
        "examine": lambda: store.runs.examine(HURT),
        "sweep": swept,
    }


Damage = Callable[[redis.Redis, Keys], Any]


def overwritten(name: str) -> Damage:
    def spoil(there: redis.Redis, keys: Keys) -> None:
        key = getattr(keys, name)("hurt")
        there.delete(key)
        there.set(key, "not what it was")

    return spoil


@pytest.fixture
def keys(prefix: str) -> Keys:
    return Keys(prefix)


def kept(client: Client, keys: Keys) -> list[Any]:
    there = client._store.redis
    return sorted(
        name
        for name in keys_under(there, keys.prefix)
        if name not in (keys.queues, *keys.queue_names)
    )
