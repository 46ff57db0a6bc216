"""Runs: the table of them."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from worker.web.pages.page import page
from worker.web.pages.route import PageRoute
from worker.web.permitted import Runs

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/runs")
def table(request: Request, runs: Runs) -> Response:
    """Newest first."""
    return page(request, "runs.html", found=runs.runs())
