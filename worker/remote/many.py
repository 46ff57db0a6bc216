"""Many: what is done to all runs of a flow or a status, by the server, one after the other."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from worker.client import arguments
from worker.client.many import Done, ManyRuns
from worker.receipt import StopMode, StopReceipt
from worker.remote.reading import Reading
from worker.remote.refusing import not_here
from worker.run import RunStatus


class Many(Reading, ManyRuns):
    """Operations on all runs that match. A call that broke off can be made again: what was done is no longer matched."""

    def request_stop_many(
        self,
        flow: str | None = None,
        status: RunStatus | str | None = None,
        mode: StopMode = "graceful",
        reason: str | None = None,
        requested_by: str | None = None,
        submitted_by: str | None = None,
    ) -> list[StopReceipt]:
        """Stop all live runs of a flow, a status (queued, running or interrupted), or both."""
        not_here(requested_by=requested_by, submitted_by=submitted_by)
        arguments.mode(mode)
        arguments.notes(reason=reason)
        wanted = arguments.status(status)
        body = {"flow": flow, "status": wanted and wanted.value, "mode": mode, "reason": reason}
        return [StopReceipt.from_dict(each) for each in self._tell("POST", "/stops", body)]

    def retry_many(self, flow: str | None = None, submitted_by: str | None = None) -> list[Done]:
        """Take all errored runs up again at their failed step; those of one flow, if one is given."""
        not_here(submitted_by=submitted_by)
        return _done(self._tell("POST", "/retries", {"flow": flow}))

    def delete_many(
        self, status: RunStatus | str, flow: str | None = None, older_than: timedelta | None = None, submitted_by: str | None = None
    ) -> list[Done]:
        """Remove all runs of an ended status (completed, errored or stopped); raises InvalidInput for another status."""
        not_here(submitted_by=submitted_by)
        arguments.moment_before(older_than, None)
        wanted = arguments.status(status)
        seconds = None if older_than is None else older_than.total_seconds()
        return _done(self._tell("POST", "/deletions", {"status": wanted and wanted.value, "flow": flow, "older_than_seconds": seconds}))


def _done(told: list[dict[str, Any]]) -> list[Done]:
    return [Done.from_dict(each) for each in told]
