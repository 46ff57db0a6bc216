"""Replication: an answer that a client gets only once replicas have what it rests on (WAIT)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flows.errors import HoldfastError
from worker.store.scripts import Arguments, Transition
from worker.store.wire import Wire, told

#: The transitions that a client asks for, and whose answer it builds on; and an intent, after which something happens outside that no
#: failover undoes. A round's claim and commit are not among them: the next round's message is out with the commit itself, so nobody
#: would be held up by waiting after it (docs/decisions/0015).
ACKNOWLEDGED = frozenset({"submit_run", "request_stop", "resume_run", "retry_run", "delete_run", "record_intent"})


class NotReplicated(HoldfastError):
    """It was done, but too few replicas have it yet: a failover at this moment could undo it. The message names the run."""


@dataclass(frozen=True)
class Replication:
    """How many replicas must have it, and for how long (s) a client waits for them; 0: none, at once."""

    replicas: int = 0
    seconds: float = 1.0


def answer_and_wait(wire: Wire, script: Transition, keys: Sequence[str], argv: Arguments, wanted: Replication, mark: str) -> Any:
    """Run a transition and wait for replicas, in one exchange over one connection; its answer, and how many replicas have it.

    WAIT looks at the connection's own last write. An operation that was sent again, or found its work done, writes nothing, and
    Valkey would say at once that all replicas have that. So something is sent to the replicas first that changes nothing: a
    publication on the channel ``mark``. After it, "they have it" means that they have all that the answer was read from. One exchange:
    after a failover in between, the answer would be the old master's and the waiting the new one's.
    """
    waiting = ("PUBLISH", mark, ""), ("WAIT", wanted.replicas, round(wanted.seconds * 1000))
    answer, _, count = map(told, script.exchange(wire, keys, argv, *waiting))
    return answer, count
