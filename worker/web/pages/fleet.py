"""Fleet: workers and queues."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from worker.announcement import shown
from worker.web.pages.page import page
from worker.web.pages.route import PageRoute
from worker.web.permitted import Runs

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/fleet")
def fleet(request: Request, runs: Runs, every: Annotated[str, Query(alias="all")] = "") -> Response:
    """The queues, the workers, the flows and which of them are paused."""
    workers = sorted(runs.workers(), key=lambda worker: (not worker["alive"], worker["name"]))
    flows, paused = runs.flows(), runs.paused_flows()
    listed = (
        flows if every else {**shown(flows, runs.client.settings.enabled_flows), **{name: flows[name] for name in paused if name in flows}}
    )
    alive = [worker for worker in workers if worker["alive"]]
    return page(
        request,
        "fleet.html",
        queues=runs.queues(),
        workers=workers,
        rounds=sum(worker["rounds"] for worker in alive),
        slots=sum(worker["concurrency"] for worker in alive),
        flows=listed,
        more=len(flows) - len(listed),
        paused=paused,
    )
