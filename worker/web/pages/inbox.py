"""Inbox: what waits for a person."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from worker.web.pages.page import page
from worker.web.pages.route import PageRoute
from worker.web.permitted import Runs

router = APIRouter(route_class=PageRoute, include_in_schema=False)

#: Questions on one page: people answer them one by one.
SHOWN = 25


@router.get("/inbox")
def inbox(request: Request, runs: Runs, cursor: str | None = None) -> Response:
    """What waits for a person, longest first, each with its form."""
    return page(request, "inbox.html", inbox=runs.inbox(SHOWN, cursor or None))
