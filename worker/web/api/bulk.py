"""Routes on many runs at once: stop, retry and delete, with their request bodies."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Annotated, Literal

from fastapi import Response
from pydantic import BeforeValidator, Field

from perdure.flows.core.durations import as_seconds
from perdure.worker.domain.query_line import MOST_CHARACTERS
from perdure.worker.domain.run import Done
from perdure.worker.domain.settlement import LONGEST
from perdure.worker.domain.stop import StopReceipt
from perdure.worker.web.api.requests import Asked, FlowName, Stop, whole
from perdure.worker.web.api.routes import (
    BODY_PROBLEMS,
    CHANGE_PROBLEMS,
    problems,
    resource_router,
)
from perdure.worker.web.auth.permissions import Runs
from perdure.worker.web.json_body import Json

#: A request with a query acts on this many runs at most.
MOST_OF_QUERY = 1000
QueryLine = Annotated[str, Field(min_length=1, max_length=MOST_CHARACTERS)]
Batch = Annotated[int, Field(ge=1, le=MOST_OF_QUERY), BeforeValidator(whole)]


class StopMany(Stop):
    """The live runs to stop, selected by flow, status or query. At least one is required."""

    flow: FlowName | None = None
    status: Literal["queued", "running", "interrupted"] | None = None
    query: QueryLine | None = None
    """Only runs that match this query line, as `q` of `GET /runs`."""
    limit: Batch | None = None
    """Maximum number of runs to stop. null: all, or with a query 1,000."""


class RetryMany(Asked):
    """The errored runs to retry."""

    flow: FlowName | None
    """The flow whose errored runs are retried. null: all flows. It must be given."""
    query: QueryLine | None = None
    """Only runs that match this query line, as `q` of `GET /runs`."""
    limit: Batch | None = None
    """Maximum number of runs to retry. null: all, or with a query 1,000."""


class DeleteMany(Asked):
    """The ended runs to delete. A status or a query is required."""

    status: Literal["completed", "errored", "stopped"] | None = None
    flow: FlowName | None = None
    older_than_seconds: (
        Annotated[float, Field(ge=0, le=LONGEST), BeforeValidator(as_seconds)] | None
    ) = None
    """Only runs that have not changed for this many seconds."""
    query: QueryLine | None = None
    """Only runs that match this query line, as `q` of `GET /runs`."""
    limit: Batch | None = None
    """Maximum number of runs to delete. null: all, or with a query 1,000."""


bulk_router = resource_router("many runs")
BULK_PROBLEMS = problems(*BODY_PROBLEMS, *CHANGE_PROBLEMS, "invalid-input")


@bulk_router.post(
    "/stops",
    operation_id="stop_runs",
    response_model=list[StopReceipt],
    responses=BULK_PROBLEMS,
)
def stop_runs(body: StopMany, runs: Runs) -> Response:
    """Stop all live runs of a flow, of a status, or that match a query.

    With a query, at most 1,000 are stopped. If there are as many results, repeat the request.
    `GET /runs` with the same query shows beforehand which runs these are.
    """
    receipts = runs.request_stop_many(
        body.flow, body.status, body.mode, body.reason, body.query, _batch(body)
    )
    return Json([receipt.to_dict() for receipt in receipts])


@bulk_router.post(
    "/retries", operation_id="retry_runs", response_model=list[Done], responses=BULK_PROBLEMS
)
def retry_runs(body: RetryMany, runs: Runs) -> Response:
    """Retry errored runs: all of them, or those of one flow, or that match a query.

    With a query, at most 1,000 are retried. If there are as many results, repeat the request.
    """
    return _bulk_response(runs.retry_many(body.flow, body.query, _batch(body)))


@bulk_router.post(
    "/deletions",
    operation_id="delete_runs",
    response_model=list[Done],
    responses=BULK_PROBLEMS,
)
def delete_runs(body: DeleteMany, runs: Runs) -> Response:
    """Delete ended runs that have a status, match a query, or both.

    A flow or an age narrows the selection. With a query, at most 1,000 are deleted. If there are as
    many results, repeat the request.
    """
    age = None if body.older_than_seconds is None else timedelta(seconds=body.older_than_seconds)
    return _bulk_response(runs.delete_many(body.status, body.flow, age, body.query, _batch(body)))


def _batch(body: StopMany | RetryMany | DeleteMany) -> int | None:
    """Return the maximum number of runs that a bulk request changes. None: no maximum.

    For a request with a query and without a limit, it is MOST_OF_QUERY, so that the search ends in
    time.
    """
    return MOST_OF_QUERY if body.query is not None and body.limit is None else body.limit


def _bulk_response(done: Iterable[Done]) -> Response:
    return Json([each.to_dict() for each in done])
