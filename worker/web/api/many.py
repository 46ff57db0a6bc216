"""Many runs at once: stopped, retried, removed. Each is still treated by itself, and the answer has a row for each."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from fastapi import Response

from worker.client.many import Done
from worker.web.api.models import run as models
from worker.web.api.models.asking import DeleteMany, RetryMany, StopMany
from worker.web.api.routing import OF_BODIES, OF_CHANGES, problems, routed
from worker.web.bodies import Json
from worker.web.permitted import Runs

router = routed("many runs")
PROBLEMS = problems(*OF_BODIES, *OF_CHANGES, "invalid-input")


@router.post("/stops", operation_id="stop_runs", response_model=list[models.StopReceipt], responses=PROBLEMS)
def stop_runs(body: StopMany, runs: Runs) -> Response:
    """Stop all live runs of a flow, a status, or both."""
    return Json([receipt.to_dict() for receipt in runs.request_stop_many(body.flow, body.status, body.mode, body.reason)])


@router.post("/retries", operation_id="retry_runs", response_model=list[models.Done], responses=PROBLEMS)
def retry_runs(body: RetryMany, runs: Runs) -> Response:
    """Take errored runs up again: those of a flow, or all."""
    return _told(runs.retry_many(body.flow))


@router.post("/deletions", operation_id="delete_runs", response_model=list[models.Done], responses=PROBLEMS)
def delete_runs(body: DeleteMany, runs: Runs) -> Response:
    """Remove runs that have ended so: of a flow, or those to which nothing has happened for a while."""
    age = None if body.older_than_seconds is None else timedelta(seconds=body.older_than_seconds)
    return _told(runs.delete_many(body.status, body.flow, age))


def _told(done: Iterable[Done]) -> Response:
    return Json([{"run": each.run_id, "why_not": each.why_not} for each in done])
