"""Runs: submitted, listed, looked at and removed."""

from __future__ import annotations

from typing import Annotated

from fastapi import Header, Query, Request, Response

from worker.errors import UnknownFlow
from worker.web.api.models import run as models
from worker.web.api.models.asking import Listing, Submit
from worker.web.api.routing import BODILESS, OF_BODIES, OF_CHANGES, Bodiless, RunId, problems, routed
from worker.web.bodies import Json
from worker.web.permitted import Runs
from worker.web.problems import unknown_flow

router = routed("runs")

Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=900,
        pattern=r"^[\x21-\x7E]([\x20-\x7E]*[\x21-\x7E])?$",
        description="The same key with the same content gets the same run, however often the call is made; with other content, 409.",
        examples=["nightly-2026-11-22"],
    ),
]


@router.post(
    "/runs",
    operation_id="submit_run",
    status_code=201,
    response_model=models.Run,
    response_description="The run; also where the idempotency key found it there already.",
    responses={
        201: {"headers": {"Location": {"description": "The run's path.", "schema": {"type": "string"}}}},
        **problems(
            *OF_BODIES, *OF_CHANGES, "unknown-flow", "invalid-input", "unstorable-value", "run-exists", "conflict", "damaged-run",
            "unsafe-server",
            unknown_flow=422,
        ),
    },
)  # fmt: skip
def submit_run(body: Submit, request: Request, runs: Runs, idempotency_key: Key = None) -> Response:
    """Hand over a goal; once this has answered, the run is not lost. With an `Idempotency-Key`, a call can be repeated."""
    given = {name: getattr(body, name) for name in body.model_fields_set}
    try:
        run = runs.submit(**given, idempotency_key=idempotency_key)
    except UnknownFlow as error:
        return unknown_flow(error)
    return Json(run.to_dict(), 201, {"Location": f"{request.url.path}/{run.id}"})


@router.get("/runs", operation_id="list_runs", response_model=models.Page, responses=problems("invalid-request", "invalid-input"))
def list_runs(wanted: Annotated[Listing, Query()], runs: Runs) -> Response:
    """Runs, newest first, a page at a time: ended ones by the time of their end, others by that of their submission.

    What a page costs is the same however many runs there are. The first page has `counts`: how many runs there are of each status.
    """
    labels = dict(label.split("=", 1) for label in wanted.label)
    page = runs.runs(wanted.status, wanted.flow, wanted.limit, wanted.cursor, labels)
    counts = None if wanted.cursor else runs.status_counts()
    return Json({"runs": [run.to_dict() for run in page], "cursor": page.cursor, "damaged": list(page.damaged), "counts": counts})


@router.get("/runs/{run_id}", operation_id="get_run", response_model=models.Run, responses=problems("run-not-found", "damaged-run"))
def get_run(run_id: RunId, runs: Runs) -> Response:
    """The run as it is now."""
    return Json(runs.get(run_id).to_dict())


@router.delete(
    "/runs/{run_id}",
    operation_id="delete_run",
    status_code=204,
    response_class=Bodiless,
    responses=problems(*OF_CHANGES, "run-not-found", "invalid-transition", "damaged-run", content=BODILESS),
)
def delete_run(run_id: RunId, runs: Runs) -> Response:
    """Remove a run that has ended, or that is too damaged to go on."""
    runs.delete(run_id)
    return Response(status_code=204)


@router.get("/runs/{run_id}/why", operation_id="why", response_model=models.Verdict, responses=problems("run-not-found", "damaged-run"))
def why(run_id: RunId, runs: Runs) -> Response:
    """Why the run is where it is: one code, one sentence, since when."""
    return Json(runs.why(run_id).to_dict())


@router.get(
    "/runs/{run_id}/transcript",
    operation_id="get_transcript",
    response_model=models.Transcript,
    responses=problems("run-not-found", "damaged-run"),
)
def get_transcript(run_id: RunId, runs: Runs) -> Response:
    """The whole run: what was submitted, what it did, and what happened to it."""
    return Json(runs.transcript(run_id))
