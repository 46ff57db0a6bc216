"""Gathering: everything that metrics are made of, read in two exchanges with the state server, and one with a broker that is elsewhere."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from worker.client import Client
from worker.metrics.families import number
from worker.standing import ALIVE_BEATS
from worker.store.figures import Look
from worker.store.keys import role_of

T = TypeVar("T")


@dataclass(frozen=True)
class WorkerTold:
    """A worker: how long it has been silent (seconds), whether that is short enough to be alive, and what it announced."""

    name: str
    silent: float
    alive: bool
    info: Mapping[str, Any] = field(default_factory=dict)

    @property
    def role(self) -> str:
        """``controller``, ``executor`` or ``all``."""
        return str(self.info.get("role"))

    def count(self, name: str) -> int:
        """A number that it announced."""
        found = self.info.get(name)
        return found if isinstance(found, int) else 0


@dataclass(frozen=True)
class Gathered:
    """See the module.

    Attributes:
        look: what stands on the state server.
        workers: those that announced themselves lately.
        lengths: messages in each queue, by its role; empty where a broker that is elsewhere does not answer.
        oldest: role to the seconds for which the run of the oldest message has been queued; only where the lists are on the state server.
        broker: whether the broker answered.
    """

    look: Look
    workers: list[WorkerTold]
    lengths: Mapping[str, int]
    oldest: Mapping[str, float]
    broker: bool

    @property
    def flows(self) -> list[str]:
        """The flows that living workers play: they are told of though nothing has happened yet, so that a first time can be seen."""
        return sorted({str(name) for worker in self.workers if worker.alive for name in worker.info.get("flows", {})})


def gather(client: Client) -> Gathered:
    """Read it; raises StoreUnavailable."""
    look = client._store.figures.look()
    lengths: Mapping[str, int] = look.lengths
    oldest: Mapping[str, float] = {}
    broker = True
    if client._store.outbox:
        lengths = client._engine.dispatcher.lengths() or {}
        broker = bool(lengths)
    else:
        oldest = dict.fromkeys(lengths, 0.0) | _ages(client, look)
    lengths, oldest = _by_role(lengths), _by_role(oldest)
    patience = ALIVE_BEATS * client.settings.heartbeat_seconds
    workers = [_worker(name, (look.now - beat) / 1000, text, patience) for name, beat, text in look.workers]
    return Gathered(look, workers, lengths, oldest, broker)


def _ages(client: Client, look: Look) -> dict[str, float]:
    """How long the run of each oldest message has been queued; a message that its run has left behind has no age."""
    runs = {queue: run_id for queue, text in look.heads.items() if (run_id := _run_of(text)) is not None}
    found = client._store.some_fields(list(runs.values()), ("phase", "queued_at", "message"))
    ages = {}
    for queue, fields in zip(runs, found, strict=True):
        queued_at = number(fields.get("queued_at"))
        if queued_at is not None and fields.get("phase") == "queued" and fields.get("message") == look.heads[queue]:
            ages[queue] = max(0.0, (look.now - queued_at) / 1000)
    return ages


def _by_role(amounts: Mapping[str, T]) -> dict[str, T]:
    return {role_of(queue): amount for queue, amount in amounts.items()}


def _run_of(text: str) -> str | None:
    """The run that a message is for; None for what is no message of ours: anybody may write to a broker."""
    try:
        args = json.loads(b64decode(json.loads(text)["body"]))[0]
    except (ValueError, TypeError, LookupError, RecursionError):
        return None
    return args[0] if isinstance(args, list) and args and isinstance(args[0], str) else None


def _worker(name: str, silent: float, text: str, patience: float) -> WorkerTold:
    try:
        info = json.loads(text)
    except ValueError:
        info = {}
    return WorkerTold(name, max(0.0, silent), silent <= patience, info if isinstance(info, dict) else {})
