"""Run: everything about one."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from worker.web.pages.page import page
from worker.web.pages.route import PageRoute
from worker.web.permitted import Runs

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/runs/{run_id}")
def one(request: Request, run_id: str, runs: Runs) -> Response:
    """What it is, what it asks, what happened to it."""
    return page(request, "run.html", run=runs.get(run_id))
