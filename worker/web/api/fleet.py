"""Fleet: the workers, the queues, what stands still, and what is wrong with the place."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Response

from worker.web.access.permitted import MOST
from worker.web.api.models.place import Finding, Letter, Queue, Worker
from worker.web.api.models.run import Verdict
from worker.web.api.routing import problems, routed
from worker.web.bodies import Json
from worker.web.permitted import Runs

router = routed("fleet")

Most = Annotated[int, Query(ge=1, le=MOST, description="How many at most are looked at, of each kind.")]


@router.get("/workers", operation_id="list_workers", response_model=list[Worker], responses=problems())
def list_workers(runs: Runs) -> Response:
    """The workers that announced themselves lately."""
    return Json(runs.workers())


@router.get("/queues", operation_id="list_queues", response_model=list[Queue], responses=problems())
def list_queues(runs: Runs) -> Response:
    """The broker's queues of rounds: their lengths, and how long the next message's run has waited."""
    return Json([queue.to_dict() for queue in runs.queues()])


@router.get("/stuck", operation_id="list_stuck", response_model=list[Verdict], responses=problems("invalid-request"))
def list_stuck(runs: Runs, limit: Most = 50) -> Response:
    """Why runs stand still that nobody waits for on purpose; `details.run` names each verdict's run. Looked at are the runs that are due
    first, that have lived longest and that errored last, so it costs the same however many there are.
    """
    return Json([verdict.to_dict() for verdict in runs.stuck(limit)])


@router.get("/dead-letters", operation_id="list_dead_letters", response_model=list[Letter], responses=problems("invalid-request"))
def list_dead_letters(runs: Runs, limit: Most = 20) -> Response:
    """The newest messages that workers refused: they are no messages of rounds."""
    return Json(runs.dead_letters(limit))


@router.get("/doctor", operation_id="examine", response_model=list[Finding], responses=problems())
def examine(runs: Runs) -> Response:
    """What voids or endangers the promises on the state server and in this process, each with its remedy."""
    return Json([finding.to_dict() for finding in runs.doctor()])
