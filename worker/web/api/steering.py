"""Steering: one run stopped, resumed, retried."""

from __future__ import annotations

from fastapi import Response

from worker.web.api.models import run as models
from worker.web.api.models.asking import Resume, Stop
from worker.web.api.routing import OF_BODIES, OF_CHANGES, RunId, problems, routed
from worker.web.bodies import Json
from worker.web.permitted import Runs

router = routed("runs")
OF_STATES = ("run-not-found", "invalid-transition", "stale", "damaged-run")


@router.post(
    "/runs/{run_id}/stop",
    operation_id="stop_run",
    response_model=models.StopReceipt,
    responses=problems(*OF_BODIES, *OF_CHANGES, "invalid-input", "run-not-found", "damaged-run"),
)
def stop_run(run_id: RunId, runs: Runs, body: Stop | None = None) -> Response:
    """Stop a run. That it has ended, or that there is none (for those who see every run), is no error: the receipt says so."""
    body = body or Stop()
    return Json(runs.request_stop(run_id, body.mode, body.reason).to_dict())


@router.post(
    "/runs/{run_id}/resume",
    operation_id="resume_run",
    response_model=models.Run,
    responses=problems(*OF_BODIES, *OF_CHANGES, "invalid-input", "unstorable-value", *OF_STATES),
)
def resume_run(run_id: RunId, runs: Runs, body: Resume | None = None) -> Response:
    """Go on with an interrupted run, giving the answer, or with a stopped one, in the name of the token's owner."""
    body = body or Resume()
    return Json(runs.resume(run_id, body.answer, body.add, body.interrupt).to_dict())


@router.post("/runs/{run_id}/retry", operation_id="retry_run", response_model=models.Run, responses=problems(*OF_CHANGES, *OF_STATES))
def retry_run(run_id: RunId, runs: Runs) -> Response:
    """Take an errored run up again, at the step that failed."""
    return Json(runs.retry(run_id).to_dict())
