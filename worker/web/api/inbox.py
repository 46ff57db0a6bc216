"""Inbox: what waits for a person."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Response

from worker.web.api.models.asking import Place
from worker.web.api.models.place import Inbox
from worker.web.api.routing import problems, routed
from worker.web.bodies import Json
from worker.web.permitted import Runs

router = routed("inbox")


@router.get("/inbox", operation_id="get_inbox", response_model=Inbox, responses=problems("invalid-request", "invalid-input"))
def get_inbox(place: Annotated[Place, Query()], runs: Runs) -> Response:
    """The runs that wait for a person, longest first, each with what it asks. `POST /runs/{run_id}/resume` answers."""
    inbox = runs.inbox(place.limit, place.cursor)
    return Json({"waiting": [each.to_dict() for each in inbox], "cursor": inbox.cursor, "damaged": list(inbox.damaged)})
