"""Check: do the messages of rounds get to the workers?"""

from __future__ import annotations

from collections.abc import Mapping

from worker.dispatch import Dispatcher
from worker.doctor.finding import Finding, ok, warning


def handover(dispatcher: Dispatcher, announced: Mapping[str, str]) -> Finding:
    """How this process hands messages over, and whether the workers expect it.

    Args:
        announced: what each live worker said of its own hand-over, by the worker's name.
    """
    check = "handover"
    others = [worker for worker, name in announced.items() if name != dispatcher.name]
    if others:
        return warning(
            check,
            f"this process hands messages over by the {dispatcher.name} way, {', '.join(others[:3])} by another: "
            "its messages reach no worker until the sweep has sent them again",
            "Give every process the same broker_url (HOLDFAST_BROKER_URL) and redis_url",
        )
    if not dispatcher.outbox:
        return ok(check, "fused: runs and messages share a server, and a round and its message are one write")
    if not dispatcher.lengths():
        return warning(
            check,
            "the broker does not answer: runs are kept, and wait",
            "See that it runs, and that broker_url (HOLDFAST_BROKER_URL) is right",
        )
    return ok(check, "outbox: messages are published to the broker after each commit, and again where one was lost")
