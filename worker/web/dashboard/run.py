"""Pages of one run: its state and timeline, a turn of its history, and an artifact."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi import APIRouter, Request, Response

from perdure.flows.files import BYTES, PICTURES
from perdure.worker.domain.event import Event
from perdure.worker.domain.interrupt import PendingInterrupt
from perdure.worker.domain.run import Run
from perdure.worker.errors import ArtifactNotFound, DamagedRun
from perdure.worker.ids import new_digits
from perdure.worker.presentation.usage import accounts
from perdure.worker.web.auth.permissions import Runs
from perdure.worker.web.dashboard.page import PageRoute, page
from perdure.worker.web.dashboard.timeline import Timeline, timeline

router = APIRouter(route_class=PageRoute, include_in_schema=False)

#: Rows on one page. The browser redraws them up to twice a second.
ROWS = 100
#: Questions of runs below the run that its page shows. The inbox has all.
ASKED_BELOW = 5
#: Types of events that are listed under stops, answers and signals.
STEERING = ("interrupted", "resumed", "stop_requested", "stopped", "retried", "signalled", "unread")
#: The node that hears what is said to its run.
CONTROLLER = "Controller"
#: Characters of an artifact that a page shows. The API returns all of it.
ARTIFACT_CHARACTERS = 500_000


@router.get("/runs/{run_id}")
def one(request: Request, run_id: str, runs: Runs, before: str | None = None) -> Response:
    """Show the run with its question and its timeline.

    With ``before``, only events before that one are shown.
    """
    try:
        run = runs.get(run_id)
        rows = _timeline(runs, run, before)
    except DamagedRun as error:
        return page(
            request, "damaged.html", 409, run_id=run_id, error=str(error), verdict=runs.why(run_id)
        )
    waiting = PendingInterrupt.of(run)
    has_children = bool(run.details.get("waits_for_children"))
    artifacts = runs.artifacts(run_id)
    has_files = any(name.startswith(BYTES) for name in artifacts)
    return page(
        request,
        "run.html",
        run=run,
        timeline=rows,
        before=before,
        waiting=waiting,
        verdict=None if run.status.ended else runs.why(run_id),
        accounts=accounts(run),
        artifacts={name: size for name, size in artifacts.items() if not name.startswith(BYTES)},
        files=sorted(
            runs.files(run_id) if has_files else [],
            key=lambda file: file.media_type not in PICTURES,
        ),
        pictures=PICTURES,
        children=runs.children(run_id) if has_children else None,
        asked_below=runs.inbox(ASKED_BELOW, below=run_id).waiting if has_children else [],
        signal_key=new_digits(16),
        unread=runs.unread(run_id) if run.details.get("received") else {},
        hears=CONTROLLER in _nodes_of(runs, run),
        steering=[entry for entry in rows.entries if entry.event.type in STEERING],
    )


@router.get("/runs/{run_id}/turns/{digest}")
def turn(request: Request, run_id: str, digest: str, runs: Runs) -> Response:
    """Show a whole turn of the history, found by the digest of its observation.

    Events hold only the beginning of an observation.
    """
    from perdure.flows.summaries import digest as digest_of

    transcript = runs.transcript(run_id)
    first = transcript["run"]["details"].get("forgotten", 0) + 1
    for number, each in reversed(list(enumerate(transcript["history"], first))):
        if digest_of(each["observation"]) == digest:
            return page(request, "turn.html", run_id=run_id, number=number, turn=each)
    raise ArtifactNotFound(f"run {run_id} has no observation {digest[:40]!r} in its history")


@router.get("/runs/{run_id}/artifacts/{name:path}")
def artifact(request: Request, run_id: str, name: str, runs: Runs) -> Response:
    """Show an artifact of the run."""
    text = runs.artifact(run_id, name)
    return page(
        request,
        "artifact.html",
        run_id=run_id,
        name=name,
        text=text[:ARTIFACT_CHARACTERS],
        left_out=len(text) - ARTIFACT_CHARACTERS,
    )


def _timeline(runs: Runs, run: Run, before: str | None) -> Timeline:
    events: list[Event] = runs.latest_events(run.id, ROWS + 1, before)
    return timeline(run, events, _nodes_of(runs, run), ROWS)


def _nodes_of(runs: Runs, run: Run) -> Mapping[str, str]:
    """Return the nodes of a run's flow with their roles; empty if nothing knows the flow."""
    flow = runs.flows().get(run.flow)
    return flow["nodes"] if flow else {}
