"""Submitting: hand a goal over."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from flows.retries import Retry, tightening
from worker.client import arguments
from worker.errors import InvalidInput
from worker.remote.connection import Connected
from worker.remote.refusing import not_here
from worker.run import Run
from worker.submission import When, from_now
from worker.transitions import LONGEST


class Submitting(Connected):
    """Makes runs."""

    def submit(
        self,
        flow: str,
        goal: str,
        inputs: Mapping[str, Any] | None = None,
        *,
        run_id: str | None = None,
        idempotency_key: str | None = None,
        interrupt_before: Sequence[str] | None = None,
        interrupt_after: Sequence[str] | None = None,
        max_rounds: int | None = None,
        not_before: When | None = None,
        deadline: When | None = None,
        thread_id: str | None = None,
        labels: Mapping[str, str] | None = None,
        budgets: Mapping[str, float] | None = None,
        retry: Retry | Mapping[str, Any] | None = None,
        submitted_by: str | None = None,
        on_end: Mapping[str, Any] | str | None = None,
        nonce: str | None = None,
    ) -> Run:
        """Hand over a goal; once this returns, the run is not lost. It is the run of the token's owner.

        The id and the nonce are made here, so that a request whose answer was lost can be sent again and still makes one run.
        """
        not_here(submitted_by=submitted_by)
        if on_end is not None:
            raise InvalidInput("on_end cannot be given to a control room: over HTTP no task of an app is named; submit with Client")
        arguments.key(idempotency_key)
        arguments.mapping(inputs, "inputs")
        arguments.names(interrupt_before, "interrupt_before")
        arguments.names(interrupt_after, "interrupt_after")
        arguments.mapping(labels, "labels", of_texts=True)
        options: dict[str, Any] = {
            "inputs": None if inputs is None else dict(inputs),
            "interrupt_before": None if interrupt_before is None else list(interrupt_before),
            "interrupt_after": None if interrupt_after is None else list(interrupt_after),
            "max_rounds": max_rounds,
            "not_before": _told(not_before, "not_before"),
            "deadline": _told(deadline, "deadline"),
            "thread_id": thread_id,
            "labels": None if labels is None else dict(labels),
            "budgets": None if budgets is None else arguments.budgets(budgets, "budgets"),
            "retry": None if (tight := tightening(retry)) is None else tight.to_data(),
        }
        body = {
            "flow": flow,
            "goal": goal,
            "run_id": uuid.uuid4().hex[:16] if run_id is None else run_id,
            "nonce": uuid.uuid4().hex if nonce is None else nonce,
            **{name: value for name, value in options.items() if value is not None},
        }
        return Run.from_dict(self._tell("POST", "/runs", body, repeat=True, idempotency_key=idempotency_key))


def _told(when: When | None, what: str) -> str | float | None:
    """A time as the API takes it: a moment stays one and a duration too, as the content of an idempotency key has them apart."""
    if when is None:
        return None
    from_now(when, what, time.time())  # raises InvalidInput where it is no time at all
    if isinstance(when, datetime):
        return when.isoformat()
    seconds = when.total_seconds() if isinstance(when, timedelta) else when
    return datetime.fromtimestamp(seconds, UTC).isoformat() if seconds > LONGEST else seconds
