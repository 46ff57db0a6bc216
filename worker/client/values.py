"""The client part for values and unread signals of runs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from perdure.flows.core.reply_extras import public
from perdure.worker.client.read import RunReads
from perdure.worker.domain.record import ARRIVED
from perdure.worker.errors import InvalidInput, ValueNotFound
from perdure.worker.operations import validation

#: Seconds between two looks for a reply or a value: short at first, then longer.
FIRST_LOOK, LAST_LOOK = 0.02, 0.5


def pauses(timeout: float) -> Iterator[float]:
    """Yield the seconds to wait between looks, until the timeout."""
    ends, pause = time.monotonic() + timeout, FIRST_LOOK
    while (left := ends - time.monotonic()) > 0:
        yield min(pause, left)
        pause = min(pause * 1.5, LAST_LOOK)


def seconds_of(timeout: object) -> float:
    """Return a timeout in seconds.

    Raises:
        InvalidInput: It is no number of seconds and no timedelta.
    """
    seconds = validation.timeout(timeout)
    if seconds is None:
        raise InvalidInput("the timeout is None; expected a number of seconds, or a timedelta")
    return seconds


class RunValues(RunReads):
    """Reads a run's values, and counts its unread signals."""

    def unread(self, run_id: str) -> dict[str, int]:
        if ARRIVED not in self._record(run_id).fields:
            return {}
        counts = self._store.signals.counts_of(run_id, self._store.signals.names(run_id))
        return {name: last - taken for name, (taken, last) in counts.items() if last > taken}

    def values(self, run_id: str) -> dict[str, Any]:
        return public(self._record(run_id).values)

    def value(self, run_id: str, name: str, wait: float | timedelta = 0.0) -> Any:
        validation.text(name, "name")
        for pause in pauses(seconds_of(wait)):
            record = self._record(run_id)
            found = public(record.values)
            if name in found:
                return found[name]
            if record.fields["phase"] == "completed":
                break
            time.sleep(pause)
        values = self.values(run_id)
        if name in values:
            return values[name]
        known = f"it has {', '.join(values)}" if values else "it has none"
        raise ValueNotFound(f"run {run_id} has no value {name!r} yet; {known}")
