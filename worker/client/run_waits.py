"""The part of clients of a state server that waits for runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta

from perdure.worker.client.connection import ClientConnection
from perdure.worker.client.results import RunResults, rests, still
from perdure.worker.domain.run import Run
from perdure.worker.operations import validation
from perdure.worker.operations.run_events import EVENT_BLOCK


class RunWaits(ClientConnection, RunResults):
    """The methods ``wait`` and ``result`` of the clients of a state server."""

    def wait(self, run_id: str, timeout: float | timedelta | None = None) -> Run:
        return self._run_when(run_id, rests, validation.timeout(timeout))

    def _run_when(
        self, run_id: str, is_awaited: Callable[[Run], bool], timeout: float | None
    ) -> Run:
        patience = None if timeout is None else time.monotonic() + timeout
        last: str | None = None
        while True:
            run = self.get(run_id)
            if is_awaited(run):
                return run
            left = (
                EVENT_BLOCK if patience is None else min(EVENT_BLOCK, patience - time.monotonic())
            )
            if left <= 0:
                raise still(run, timeout or 0.0, self.why(run_id))
            entries = self._store.events.read(run_id, last, block=max(1, round(left * 1000)))
            last = entries[-1][0] if entries else last
