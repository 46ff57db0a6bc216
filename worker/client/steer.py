"""The method ``ask`` of clients, which sends a signal and waits for the reply."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

from perdure.flows.core.outcomes import ASK
from perdure.worker.client.api import ClientApi
from perdure.worker.domain.signal import SignalReply
from perdure.worker.operations.intervals import seconds_of

#: Seconds that ``ask`` waits by default.
PATIENCE = 30.0


def too_late(reply: SignalReply, timeout: float) -> TimeoutError:
    """Return the error for a reply that did not come within ``timeout`` seconds."""
    return TimeoutError(
        f"run {reply.run_id} has not replied to signal {reply.number} of {reply.name!r} within "
        f"{timeout:g} s; it may do so later: client.reply({reply.run_id!r}, {reply.number}"
        f"{'' if reply.name == ASK else f', {reply.name!r}'})"
    )


class Steering(ClientApi):
    """The method ``ask`` of the clients whose methods block."""

    def ask(
        self,
        run_id: str,
        question: Any,
        *,
        name: str = ASK,
        timeout: float | timedelta = PATIENCE,
        key: str | None = None,
        by: str | None = None,
    ) -> Any:
        seconds = seconds_of(timeout)
        receipt = self.signal(run_id, name, question, key=key or uuid4().hex, by=by)
        reply = self.reply(run_id, receipt.number, name, seconds)
        if not reply.replied:
            raise too_late(reply, seconds)
        return reply.value
