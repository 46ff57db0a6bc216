"""Replication: a transition returns only after enough replicas have its write (WAIT)."""

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
    """How many replicas must have a write before its transition returns.

    Attributes:
        replicas: the number of replicas. 0: the transition does not wait.
        seconds: the longest time to wait for the replicas.
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
    """Run a script, and wait until replicas have its writes.

    WAIT only covers writes of its own connection. A repeated operation may write nothing, and
    Valkey would then report at once that all replicas have it. So the script is followed by a
    PUBLISH, which changes nothing. A replica that has the PUBLISH has all data on which the
    script's reply is based.

    Script, PUBLISH and WAIT are one exchange over one connection. Otherwise, after a failover in
    between, the replicas of the new master would confirm a reply of the old master.

    Args:
        argv: the arguments of the script.
        wanted: the number of replicas, and the longest wait. If the time is over, the function
            returns nevertheless.
        mark: the channel for the PUBLISH.

    Returns:
        The script's reply, and the number of replicas that have its writes.
    """
    waiting = ("PUBLISH", mark, ""), ("WAIT", wanted.replicas, round(wanted.seconds * 1000))
    answer, _, count = map(told, script.exchange(wire, keys, argv, *waiting))
    return answer, count
