"""BulkOperations: the methods of clients that change all runs that match filters.

Each run is stopped, signalled, retried or deleted by a call of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from perdure.worker.client.api import ClientApi
from perdure.worker.domain.query_line import with_term
from perdure.worker.domain.run import Done, RunStatus
from perdure.worker.domain.run_query import RunQuery
from perdure.worker.domain.stop import StopMode, StopReceipt
from perdure.worker.errors import (
    Conflict,
    DamagedRun,
    InvalidInput,
    InvalidTransition,
    MailboxFull,
    RunNotFound,
    Stale,
)
from perdure.worker.operations import validation

ENDED = tuple(status for status in RunStatus if status.ended)
LIVE = (RunStatus.QUEUED, RunStatus.RUNNING, RunStatus.INTERRUPTED)
#: Errors of a signal that concern one run, so that the others still get theirs.
NOT_SIGNALLED = (InvalidTransition, RunNotFound, DamagedRun, MailboxFull, Conflict)
#: Number of runs that are read in one exchange.
PAGE = 200


class BulkOperations(ClientApi):
    """Operations on all runs that matched when the call began.

    A run may change meanwhile, so that the operation no longer applies to it. Then the run is left
    unchanged, and its result says why. An aborted call can be repeated: runs that it has stopped,
    retried or deleted no longer match. To repeat ``signal_many``, pass a key.
    """

    def matching(
        self,
        status: RunStatus | str | None = None,
        flow: str | None = None,
        older_than: timedelta | None = None,
        now: datetime | None = None,
        submitted_by: str | None = None,
        labels: Mapping[str, str] | None = None,
        query: str | None = None,
        limit: int | None = None,
    ) -> list[str]:
        before = validation.moment_before(older_than, now)
        check_query(query)
        if limit is not None:
            validation.limit(limit)
        # An order by duration or cost would hold for the first page only.
        line = None if query is None else with_term(query, "sort", None)
        ids: dict[str, None] = {}
        cursor: str | None = None
        while True:
            page = self.runs(
                status, flow, PAGE, cursor, labels=labels, submitted_by=submitted_by, query=line
            )
            matching = (run.id for run in page if before is None or run.updated_at < before)
            ids |= dict.fromkeys(matching)
            cursor = page.cursor
            if cursor is None or (limit is not None and len(ids) >= limit):
                return list(ids)[:limit]

    def request_stop_many(
        self,
        flow: str | None = None,
        status: RunStatus | str | None = None,
        mode: StopMode = "graceful",
        reason: str | None = None,
        requested_by: str | None = None,
        submitted_by: str | None = None,
        query: str | None = None,
        limit: int | None = None,
    ) -> list[StopReceipt]:
        check_query(query)
        _some_filter("stop", flow, status, query)
        validation.mode(mode)
        validation.notes(reason=reason, requested_by=requested_by)
        one = live_status(status)
        statuses = LIVE if one is None else (one,)
        ids = matching_any(
            self, statuses, flow, submitted_by=submitted_by, query=query, limit=limit
        )
        receipts = []
        for run_id in ids:
            try:
                receipts.append(self.request_stop(run_id, mode, reason, requested_by))
            except DamagedRun as error:
                # A damaged run must not prevent the others from being stopped.
                receipts.append(
                    StopReceipt.of_damaged(run_id, str(error), mode, requested_by, reason)
                )
        return receipts

    def signal_many(
        self,
        name: str,
        payload: Any = None,
        *,
        flow: str | None = None,
        labels: Mapping[str, str] | None = None,
        key: str | None = None,
        by: str | None = None,
        submitted_by: str | None = None,
    ) -> list[Done]:
        if flow is None and not labels:
            raise InvalidInput("expected a flow, labels, or both, to choose the runs to signal")
        validation.signal(name)
        validation.key(key, "key")
        ids = matching_any(self, LIVE, flow, submitted_by=submitted_by, labels=labels)
        done = []
        for run_id in ids:
            try:
                self.signal(run_id, name, payload, key=key, by=by)
            except NOT_SIGNALLED as error:
                done.append(Done(run_id, str(error)))
            else:
                done.append(Done(run_id))
        return done

    def retry_many(
        self,
        flow: str | None = None,
        submitted_by: str | None = None,
        query: str | None = None,
        limit: int | None = None,
    ) -> list[Done]:
        done = []
        for run_id in matching_any(
            self, (RunStatus.ERRORED,), flow, submitted_by=submitted_by, query=query, limit=limit
        ):
            try:
                self.retry(run_id)
            except (InvalidTransition, Stale, RunNotFound, DamagedRun) as error:
                done.append(Done(run_id, str(error)))
            else:
                done.append(Done(run_id))
        return done

    def delete_many(
        self,
        status: RunStatus | str | None = None,
        flow: str | None = None,
        older_than: timedelta | None = None,
        submitted_by: str | None = None,
        query: str | None = None,
        limit: int | None = None,
    ) -> list[Done]:
        chosen = ended_status(status, query)
        done = []
        statuses = ENDED if chosen is None else (chosen,)
        for run_id in matching_any(
            self,
            statuses,
            flow,
            older_than,
            submitted_by=submitted_by,
            query=query,
            limit=limit,
        ):
            try:
                self.delete(run_id)
            except (InvalidTransition, RunNotFound, DamagedRun) as error:
                done.append(Done(run_id, str(error)))
            else:
                done.append(Done(run_id))
        return done


def matching_any(
    client: ClientApi,
    statuses: Iterable[RunStatus],
    flow: str | None = None,
    older_than: timedelta | None = None,
    *,
    submitted_by: str | None = None,
    labels: Mapping[str, str] | None = None,
    query: str | None = None,
    limit: int | None = None,
) -> list[str]:
    """Return the ids of the runs that have any of these statuses and match all other filters.

    All statuses are read as one list. If they were read one after the other, a run that changes
    from one status to another meanwhile could be missed.

    Args:
        statuses: The statuses. If ``query`` names statuses too, only statuses in both count.
        query: A query line. None: no query.
        limit: Maximum number of ids. None: all.

    Raises:
        InvalidInput: The query cannot be read or is empty.
    """
    check_query(query)
    wanted = frozenset(statuses) & RunQuery.of(query or "").statuses
    if not wanted:
        return []
    named = ",".join(each.value for each in RunStatus if each in wanted)
    return client.matching(
        None,
        flow,
        older_than,
        submitted_by=submitted_by,
        labels=labels,
        query=with_term(query or "", "status", named),
        limit=limit,
    )


def check_query(query: str | None) -> None:
    """Raise InvalidInput if a query line chooses no runs. None is valid: it limits nothing.

    An empty line matches all runs, and so does a line with nothing but ``sort:`` and ``children:``.
    A caller that passes one mostly means other runs: the query of a group of errors is empty if no
    line can choose the group's runs.
    """
    validation.optional_texts(query=query)
    if query is not None and not RunQuery.of(query).terms:
        raise InvalidInput(
            "query: expected a line that chooses runs, such as flow:react (sort: and children: "
            f"choose none), got {query[:40]!r}. To act on runs without a query, leave it out (None)"
        )


def live_status(status: RunStatus | str | None) -> RunStatus | None:
    """Return the status of the runs to stop. None stays None, and means all live runs.

    Raises:
        InvalidInput: Runs of this status have ended.
    """
    chosen = validation.status(status)
    if chosen is not None and chosen.ended:
        raise InvalidInput(
            "only queued, running and interrupted runs can be stopped, not runs that are "
            f"{chosen.value}"
        )
    return chosen


def ended_status(status: RunStatus | str | None, query: str | None = None) -> RunStatus | None:
    """Return the status of the runs to delete.

    Returns:
        The status. None if ``status`` is None: all runs that have ended and match ``query``.

    Raises:
        InvalidInput: Runs of this status have not ended, or both arguments are None, or the query
            is empty.
    """
    check_query(query)
    chosen = validation.status(status)
    if (chosen is None and query is None) or (chosen is not None and not chosen.ended):
        came = "of any status" if chosen is None else f"that are {chosen.value}"
        raise InvalidInput(
            f"only completed, errored and stopped runs can be deleted, not runs {came}"
        )
    return chosen


def _some_filter(
    what: str, flow: str | None, status: RunStatus | str | None, query: str | None
) -> None:
    if flow is None and status is None and query is None:
        raise InvalidInput(f"expected a flow, a status or a query, to choose the runs to {what}")
