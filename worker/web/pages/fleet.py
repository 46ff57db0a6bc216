"""Fleet: workers and queues."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from worker.web.pages.page import page
from worker.web.pages.route import PageRoute
from worker.web.permitted import Runs

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/fleet")
def fleet(request: Request, runs: Runs) -> Response:
    """The queues, the workers, the flows and which of them are paused."""
    workers = sorted(runs.workers(), key=lambda worker: (not worker["alive"], worker["name"]))
    alive = [worker for worker in workers if worker["alive"]]
    return page(
        request,
        "fleet.html",
        queues=runs.queues(),
        workers=workers,
        rounds=sum(worker["rounds"] for worker in alive),
        slots=sum(worker["concurrency"] for worker in alive),
        flows=runs.flows(),
        paused=runs.paused_flows(),
    )
