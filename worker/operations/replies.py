"""The operation that reads a run's reply to a signal."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from perdure.flows.core.outcomes import ASK
from perdure.worker.domain.record import ARRIVED
from perdure.worker.domain.signal import SignalReply
from perdure.worker.domain.token import Scope
from perdure.worker.errors import InvalidInput, InvalidTransition
from perdure.worker.operations import validation
from perdure.worker.operations.arguments import by_value
from perdure.worker.operations.intervals import pauses, seconds_of
from perdure.worker.operations.operation import Http, Owner, operation
from perdure.worker.operations.session import Session, not_found


def _encode(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of the HTTP request. The timeout becomes ``wait``, in seconds."""
    seconds = max(0.0, seconds_of(arguments["timeout"]))
    return {
        "run_id": arguments["run_id"],
        "name": arguments["name"],
        "number": arguments["number"],
        "wait": f"{seconds:.3f}",
    }


@operation(
    Http("GET", "/runs/{run_id}/asks/{name}/{number}"),
    scope=Scope.SIGNAL,
    owner=Owner.RUN,
    checks={"name": by_value(validation.signal), "number": by_value(validation.limit)},
    encode=_encode,
)
def reply(
    session: Session, run_id: str, number: int, name: str = ASK, timeout: float | timedelta = 0.0
) -> SignalReply:
    """Return a run's reply to a signal. The newest 100 replies of a name are stored.

    If the run does not reply in time, ``replied`` of the result is False.

    Args:
        number: The number of the signal, from its receipt.
        name: The name of the signal.
        timeout: Seconds to wait for a reply. With 0, the call does not wait.

    Raises:
        InvalidTransition: The run has completed without a reply.
        InvalidInput: The run has received no such signal.
        RunNotFound: No run has this id.
    """
    seconds = seconds_of(timeout)
    for pause in pauses(seconds):
        reply = _reply(session, run_id, name, number)
        if reply.replied:
            return reply
        time.sleep(pause)
    return _reply(session, run_id, name, number)


def _reply(session: Session, run_id: str, name: str, number: int) -> SignalReply:
    # The phase is read first: a run that completes replies before.
    (found,) = session.store.reads.some_fields([run_id], ["phase", ARRIVED])
    if not validation.is_run_id(run_id) or "phase" not in found:
        raise not_found(run_id)
    text = session.store.signals.reply(run_id, name, number)
    if text is not None:
        return SignalReply(run_id, name, number, True, json.loads(text))
    newest = session.store.signals.counts_of(run_id, [name])[name][1] if ARRIVED in found else 0
    if number > newest:
        raise InvalidInput(f"run {run_id} has got no signal {number} of {name!r}")
    if found["phase"] == "completed":
        raise InvalidTransition(
            f"run {run_id} has completed without a reply to signal {number} of {name!r}; "
            f"its answer: perdure show {run_id}"
        )
    return SignalReply(run_id, name, number, False)
