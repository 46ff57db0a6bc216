"""Run: everything about one."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from worker.errors import ArtifactNotFound, DamagedRun
from worker.event import Event
from worker.run import Run
from worker.waiting import Waiting
from worker.web.pages.page import page
from worker.web.pages.route import PageRoute
from worker.web.pages.timeline import Timeline, timeline
from worker.web.permitted import Runs
from worker.words.costs import accounts

router = APIRouter(route_class=PageRoute, include_in_schema=False)

#: Rows of one page: what a person scrolls through, and a browser draws anew twice a second.
ROWS = 100
#: Events that are the history of stops and of what was asked and answered.
STEERING = ("interrupted", "resumed", "stop_requested", "stopped", "retried")
#: Bytes of one artifact that a page shows; the API has the whole.
SHOWN = 500_000


@router.get("/runs/{run_id}")
def one(request: Request, run_id: str, runs: Runs, before: str | None = None) -> Response:
    """What it is, what it asks, what happened to it; ``before``: only what happened before that event."""
    try:
        run = runs.get(run_id)
        found = _timeline(runs, run, before)
    except DamagedRun as error:
        return page(request, "damaged.html", 409, run_id=run_id, error=str(error), verdict=runs.why(run_id))
    waiting = Waiting.of(run)
    return page(
        request,
        "run.html",
        run=run,
        timeline=found,
        before=before,
        waiting=waiting,
        verdict=None if run.status.ended else runs.why(run_id),
        accounts=accounts(run),
        artifacts=runs.artifacts(run_id),
        steering=[entry for entry in found.entries if entry.event.type in STEERING],
    )


@router.get("/runs/{run_id}/turns/{digest}")
def turn(request: Request, run_id: str, digest: str, runs: Runs) -> Response:
    """One turn of its history whole, by the digest of its observation: events have only its beginning."""
    from flows.summaries import digest as digest_of

    history = runs.transcript(run_id)["history"]
    for number, each in reversed(list(enumerate(history, 1))):
        if digest_of(each["observation"]) == digest:
            return page(request, "turn.html", run_id=run_id, number=number, turn=each)
    raise ArtifactNotFound(f"run {run_id} has no observation {digest[:40]!r} in its history (any more)")


@router.get("/runs/{run_id}/artifacts/{name:path}")
def artifact(request: Request, run_id: str, name: str, runs: Runs) -> Response:
    """What it keeps whole under this name."""
    text = runs.artifact(run_id, name)
    return page(request, "artifact.html", run_id=run_id, name=name, text=text[:SHOWN], left_out=len(text) - SHOWN)


def _timeline(runs: Runs, run: Run, before: str | None) -> Timeline:
    events: list[Event] = runs.latest_events(run.id, ROWS + 1, before)
    flow: dict[str, Any] = runs.flows().get(run.flow, {})
    return timeline(run, events, flow.get("nodes", {}), ROWS)
