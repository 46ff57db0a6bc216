"""Fleet: the workers, and what is wrong with the place."""

from __future__ import annotations

from fastapi import Response

from worker.web.api.models.place import Finding, Worker
from worker.web.api.routing import problems, routed
from worker.web.bodies import Json
from worker.web.permitted import Runs

router = routed("fleet")


@router.get("/workers", operation_id="list_workers", response_model=list[Worker], responses=problems())
def list_workers(runs: Runs) -> Response:
    """The workers that announced themselves lately."""
    return Json(runs.workers())


@router.get("/doctor", operation_id="examine", response_model=list[Finding], responses=problems())
def examine(runs: Runs) -> Response:
    """What voids or endangers the promises on the state server and in this process, each with its remedy."""
    return Json([finding.to_dict() for finding in runs.doctor()])
