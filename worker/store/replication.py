"""Replication: replies to clients only after enough replicas have the write (WAIT)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from perdure.worker.store.scripts import Arguments, Transition
from perdure.worker.store.wire import Wire, told

#: The transitions that wait for replicas. Those are the ones that a client calls and relies on. An
#: intent waits as well, since no failover undoes the effect outside that follows it. A round's
#: claim and commit do not wait. The next round's message leaves with the commit, so waiting would
#: hold up nothing (docs/internals/decisions/0015).
ACKNOWLEDGED = frozenset(
    {
        "submit_run",
        "request_stop",
        "resume_run",
        "retry_run",
        "signal_run",
        "raise_limit",
        "signal_topic",
        "delete_run",
        "record_intent",
    }
)


@dataclass(frozen=True)
class Replication:
    """How many replicas must have a client's write.

    ``seconds`` is the longest time that the client waits for them. 0 replicas: it does not wait.
    """

    replicas: int = 0
    seconds: float = 1.0


def answer_and_wait(
    wire: Wire,
    script: Transition,
    keys: Sequence[str],
    argv: Arguments,
    wanted: Replication,
    mark: str,
) -> Any:
    """Run a script, and wait for replication of its writes.

    WAIT checks the connection's own last write. A repeated operation may write nothing. Valkey
    would then report at once that all replicas have it. So a PUBLISH on the channel ``mark``, which
    changes nothing, follows the transition. A replica that has the PUBLISH has all data behind the
    reply. This is one exchange over one connection. Otherwise, after a failover in between, the new
    master's replicas would confirm the old master's reply.

    Returns:
        The script's reply, and the number of replicas that have its writes.
    """
    waiting = ("PUBLISH", mark, ""), ("WAIT", wanted.replicas, round(wanted.seconds * 1000))
    answer, _, count = map(told, script.exchange(wire, keys, argv, *waiting))
    return answer, count
