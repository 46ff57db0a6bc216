"""ManyRuns: what a client does to all runs of a flow or a status. Each run is still stopped, retried or deleted by itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

from worker.client import arguments
from worker.errors import DamagedRun, InvalidInput, InvalidTransition, RunNotFound, Stale
from worker.receipt import StopMode, StopReceipt
from worker.run import Run, RunStatus

if TYPE_CHECKING:
    from worker.client.listing import Page

LIVE = (RunStatus.QUEUED, RunStatus.RUNNING, RunStatus.INTERRUPTED)
#: Runs read in one exchange.
PAGE = 200


@dataclass(frozen=True)
class Done:
    """What became of one run among many: ``why_not`` says why nothing was done, None where it was."""

    run_id: str
    why_not: str | None = None

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Done:
        """What ``to_dict`` told of; raises KeyError where something is missing."""
        return cls(data["run"], data["why_not"])

    def to_dict(self) -> dict[str, str | None]:
        """It as JSON data."""
        return {"run": self.run_id, "why_not": self.why_not}


class _OneByOne(Protocol):
    """The methods of a client that this builds on."""

    def runs(
        self,
        status: RunStatus | str | None = ...,
        flow: str | None = ...,
        limit: int = ...,
        cursor: str | None = ...,
        *,
        submitted_by: str | None = ...,
    ) -> Page: ...
    def request_stop(self, run_id: str, mode: StopMode = ..., reason: str | None = ..., requested_by: str | None = ...) -> StopReceipt: ...
    def retry(self, run_id: str) -> Run: ...
    def delete(self, run_id: str) -> None: ...
    def matching(
        self,
        status: RunStatus | str | None = ...,
        flow: str | None = ...,
        older_than: timedelta | None = ...,
        now: datetime | None = ...,
        submitted_by: str | None = ...,
    ) -> list[str]: ...


class ManyRuns:
    """Operations on all runs that match, as they were when the call began.

    A run that changed meanwhile, so that the operation no longer applies, is left as it is, and what is returned says so.
    A call that broke off in the middle can be made again: what was done is no longer matched.
    """

    def matching(
        self: _OneByOne,
        status: RunStatus | str | None = None,
        flow: str | None = None,
        older_than: timedelta | None = None,
        now: datetime | None = None,
        submitted_by: str | None = None,
    ) -> list[str]:
        """The ids of the runs of this status and flow (and submitter; as in all methods here).

        Args:
            older_than: only runs to which nothing has happened for so long before ``now`` (None: this machine's time).
        """
        before = arguments.moment_before(older_than, now)
        found: list[str] = []
        cursor: str | None = None
        while True:
            page = self.runs(status, flow, PAGE, cursor, submitted_by=submitted_by)
            found += [run.id for run in page if before is None or run.updated_at < before]
            cursor = page.cursor
            if cursor is None:
                return list(dict.fromkeys(found))

    def request_stop_many(
        self: _OneByOne,
        flow: str | None = None,
        status: RunStatus | str | None = None,
        mode: StopMode = "graceful",
        reason: str | None = None,
        requested_by: str | None = None,
        submitted_by: str | None = None,
    ) -> list[StopReceipt]:
        """Stop all live runs of a flow, a status (queued, running or interrupted), or both; raises InvalidInput where neither is given."""
        _some_filter("stop", flow, status)
        arguments.mode(mode)
        arguments.notes(reason=reason, requested_by=requested_by)
        one = arguments.status(status)
        wanted = LIVE if one is None else (one,)
        ids = dict.fromkeys(run_id for each in wanted for run_id in self.matching(each, flow, submitted_by=submitted_by))
        receipts = []
        for run_id in ids:
            try:
                receipts.append(self.request_stop(run_id, mode, reason, requested_by))
            except DamagedRun as error:  # it must not keep the others running
                receipts.append(StopReceipt(run_id, True, True, str(error), False, "damaged", mode, requested_by, reason))
        return receipts

    def retry_many(self: _OneByOne, flow: str | None = None, submitted_by: str | None = None) -> list[Done]:
        """Take all errored runs up again at their failed step; those of one flow, if one is given."""
        done = []
        for run_id in self.matching(RunStatus.ERRORED, flow, submitted_by=submitted_by):
            try:
                self.retry(run_id)
            except (InvalidTransition, Stale, RunNotFound, DamagedRun) as error:
                done.append(Done(run_id, str(error)))
            else:
                done.append(Done(run_id))
        return done

    def delete_many(
        self: _OneByOne,
        status: RunStatus | str,
        flow: str | None = None,
        older_than: timedelta | None = None,
        submitted_by: str | None = None,
    ) -> list[Done]:
        """Remove all runs of an ended status (completed, errored or stopped); raises InvalidInput for another status."""
        wanted = arguments.status(status)
        if wanted is None or not wanted.ended:
            came = "of any status" if wanted is None else f"that are {wanted.value}"
            raise InvalidInput(f"only completed, errored and stopped runs can be deleted, none {came}")
        done = []
        for run_id in self.matching(wanted, flow, older_than, submitted_by=submitted_by):
            try:
                self.delete(run_id)
            except (InvalidTransition, RunNotFound, DamagedRun) as error:
                done.append(Done(run_id, str(error)))
            else:
                done.append(Done(run_id))
        return done


def _some_filter(what: str, flow: str | None, status: RunStatus | str | None) -> None:
    if flow is None and status is None:
        raise InvalidInput(f"say which runs to {what}: a flow, a status, or both")
