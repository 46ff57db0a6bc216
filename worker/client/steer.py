"""The client part for ``say``, ``ask`` and ``reply``."""

from __future__ import annotations

import json
import time
from datetime import timedelta
from typing import Any
from uuid import uuid4

from perdure.flows.core.outcomes import ASK, SAY
from perdure.worker.client.api import ClientApi
from perdure.worker.client.read import RunReads
from perdure.worker.domain.record import ARRIVED
from perdure.worker.domain.signal import SignalReceipt, SignalReply
from perdure.worker.errors import InvalidInput, InvalidTransition
from perdure.worker.operations import validation
from perdure.worker.operations.intervals import pauses, seconds_of
from perdure.worker.operations.session import not_found

#: Seconds that ``ask`` waits by default.
PATIENCE = 30.0


def check_words(words: object, name: str) -> None:
    """Raise InvalidInput unless the words are a nonempty text."""
    validation.text(words, name)
    if not str(words).strip():
        raise InvalidInput(f"{name} is empty; expected what to say to the run")


def too_late(reply: SignalReply, timeout: float) -> TimeoutError:
    """Return the error for a reply that did not come."""
    return TimeoutError(
        f"run {reply.run_id} has not replied to signal {reply.number} of {reply.name!r} within "
        f"{timeout:g} s; it may do so later: client.reply({reply.run_id!r}, {reply.number}"
        f"{'' if reply.name == ASK else f', {reply.name!r}'})"
    )


class Steering(ClientApi):
    """Steering of a run, the same in every client."""

    def say(
        self, run_id: str, words: str, *, key: str | None = None, by: str | None = None
    ) -> SignalReceipt:
        check_words(words, "words")
        return self.signal(run_id, SAY, words, key=key, by=by)

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


class RunSteering(RunReads, Steering):
    """Reads a run's replies."""

    def reply(
        self, run_id: str, number: int, name: str = ASK, timeout: float | timedelta = 0.0
    ) -> SignalReply:
        seconds = seconds_of(timeout)
        validation.signal(name)
        validation.limit(number)
        for pause in pauses(seconds):
            reply = self._reply(run_id, name, number)
            if reply.replied:
                return reply
            time.sleep(pause)
        return self._reply(run_id, name, number)

    def _reply(self, run_id: str, name: str, number: int) -> SignalReply:
        # The phase is read first: a run that completes replies before.
        (found,) = self._store.reads.some_fields([run_id], ["phase", ARRIVED])
        if not validation.is_run_id(run_id) or "phase" not in found:
            raise not_found(run_id)
        text = self._store.signals.reply(run_id, name, number)
        if text is not None:
            return SignalReply(run_id, name, number, True, json.loads(text))
        newest = self._store.signals.counts_of(run_id, [name])[name][1] if ARRIVED in found else 0
        if number > newest:
            raise InvalidInput(f"run {run_id} has got no signal {number} of {name!r}")
        if found["phase"] == "completed":
            raise InvalidTransition(
                f"run {run_id} has completed without a reply to signal {number} of {name!r}; "
                f"its answer: perdure show {run_id}"
            )
        return SignalReply(run_id, name, number, False)
