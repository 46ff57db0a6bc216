"""Artifacts: what a run keeps whole beside its history."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Response
from fastapi.responses import PlainTextResponse

from worker.web.api.routing import RunId, problems, routed
from worker.web.bodies import Json
from worker.web.permitted import Runs

router = routed("runs")

Name = Annotated[str, Path(description="The artifact's name.", examples=["4-run_tests"])]


@router.get(
    "/runs/{run_id}/artifacts",
    operation_id="list_artifacts",
    response_model=dict[str, int],
    response_description="Bytes by name.",
    responses=problems("run-not-found", "damaged-run"),
)
def list_artifacts(run_id: RunId, runs: Runs) -> Response:
    """The names of what the run keeps whole beside its history, each with its size in bytes."""
    return Json(runs.artifacts(run_id))


@router.get(
    "/runs/{run_id}/artifacts/{name:rest}",
    operation_id="get_artifact",
    response_class=PlainTextResponse,
    response_description="The text.",
    responses=problems("run-not-found", "artifact-not-found", "damaged-run"),
)
def get_artifact(run_id: RunId, name: Name, runs: Runs) -> Response:
    """One of them, as it is. Whatever it looks like, it is text: no browser is to guess otherwise."""
    text = runs.artifact(run_id, name).encode("utf-8", "surrogateescape")
    return PlainTextResponse(text, headers={"X-Content-Type-Options": "nosniff"})
