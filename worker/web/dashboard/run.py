"""Pages of one run: its state and timeline, and its artifacts."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi import APIRouter, Request, Response

from perdure.flows.core.files import BYTES, PICTURES
from perdure.worker.domain.event import Event
from perdure.worker.domain.fleet import reads_messages
from perdure.worker.domain.interrupt import PendingInterrupt
from perdure.worker.domain.run import Run
from perdure.worker.domain.token import Scope
from perdure.worker.errors import DamagedRun
from perdure.worker.http_urls import filled_link
from perdure.worker.ids import new_digits
from perdure.worker.presentation.usage import accounts
from perdure.worker.settings import Settings
from perdure.worker.web.auth import AuthorizedClient
from perdure.worker.web.auth.permissions import Runs
from perdure.worker.web.dashboard.documents import frames_of, part_of, text_of, tree_of
from perdure.worker.web.dashboard.outline import Outline, is_at_hand, outline_of
from perdure.worker.web.dashboard.page import THEME_SECONDS, PageRoute, page
from perdure.worker.web.dashboard.strip import Strip
from perdure.worker.web.dashboard.timeline import Timeline, timeline

router = APIRouter(route_class=PageRoute, include_in_schema=False)

#: Rows on one page. The browser redraws them up to twice a second.
ROWS = 100
#: Failed steps that the page links to, the newest first.
FAILED_STEPS = 8
#: Questions of runs below the run that its page shows. The inbox has all.
ASKED_BELOW = 5
#: The cookie with how dense the rows are.
DENSITY = "perdure_rows"
DENSITIES = ("dense", "comfortable")
#: Characters of an answer that the page has ready to be copied.
COPIED_CHARACTERS = 100_000


@router.get("/runs/{run_id}")
def one(
    request: Request,
    run_id: str,
    runs: Runs,
    before: str | None = None,
    step: int | None = None,
    rows: str = "",
    part: str = "",
) -> Response:
    """Show a run.

    The page has the open question, the picture and the timeline of the run.

    Args:
        before: The id of an event. Only earlier events are shown. None: the newest events.
        step: The newest step that is shown. It overrides ``before``.
        rows: ``dense`` or ``comfortable``, which a cookie stores. Any other value is ignored.
        part: ``rows`` returns only the rows of the timeline, which a page loads while the user
            scrolls. ``strip`` waits for the picture even if the run is long. Otherwise the page of
            a long run comes without the picture.
    """
    try:
        run = runs.get(run_id)
        roles = nodes_of(runs, run)
        # A page of a long run does not wait for the picture of the whole. It is loaded afterwards.
        is_lazy = not (
            step is not None
            or part == "strip"
            or "HX-Request" in request.headers
            or is_at_hand(runs, run, roles)
        )
        outline = Outline(roles) if is_lazy else outline_of(runs, run, roles)
        before = before if step is None else outline.before_step(step)
        events: list[Event] = runs.latest_events(run.id, ROWS + 1, before)
        shown = timeline(run, events, roles, ROWS)
    except DamagedRun as error:
        return page(
            request, "damaged.html", 409, run_id=run_id, error=str(error), verdict=runs.why(run_id)
        )
    density = rows if rows in DENSITIES else request.cookies.get(DENSITY, "")
    dense = density == "dense"
    if part == "rows":
        return page(request, "rows.html", run=run, timeline=shown, before=before, dense=dense)
    response = _page(request, runs, run, outline, shown, before, dense, is_lazy)
    if rows in DENSITIES:
        response.set_cookie(DENSITY, rows, max_age=THEME_SECONDS, samesite="lax", httponly=True)
    return response


def _page(
    request: Request,
    runs: AuthorizedClient,
    run: Run,
    outline: Outline,
    shown: Timeline,
    before: str | None,
    dense: bool,
    is_lazy: bool,
) -> Response:
    run_id = run.id
    ids = [entry.id for entry in shown.entries]
    waiting = PendingInterrupt.of(run)
    has_children = bool(run.details.get("waits_for_children"))
    artifacts = runs.artifacts(run_id)
    has_files = any(name.startswith(BYTES) for name in artifacts)
    return page(
        request,
        "run.html",
        run=run,
        may_here={
            scope.value: runs.caller.may_with(scope, run.details.get("submitted_by"))
            for scope in Scope
        },
        timeline=shown,
        strip=Strip(outline, ids[-1] if ids else "", ids[0] if ids else ""),
        failed_steps=list(outline.failures_by_step.items())[:FAILED_STEPS],
        is_lazy=is_lazy,
        dense=dense,
        frames=frames_of(str(run.details.get("traceback") or "")),
        answer_text=text_of(run.answer)[:COPIED_CHARACTERS] if run.answer is not None else "",
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
        links=links_of(runs.client.settings, run),
        signal_key=new_digits(16),
        unread=runs.unread(run_id) if run.details.get("received") else {},
        hears=(flow := runs.flows().get(run.flow)) is not None and reads_messages(flow),
    )


@router.get("/runs/{run_id}/artifacts/{name:path}")
def artifact(request: Request, run_id: str, name: str, runs: Runs, begins: int = 0) -> Response:
    """Show an artifact as a JSON tree if it is JSON, and as text.

    Args:
        begins: Position of the first character of the text on the page.
    """
    text = runs.artifact(run_id, name)
    return page(
        request,
        "artifact.html",
        run_id=run_id,
        name=name,
        tree=tree_of(text),
        text=part_of(text, begins),
    )


def links_of(settings: Settings, run: Run) -> list[tuple[str, str]]:
    """Return a run's external links: pairs of text and URL.

    They lead to the run's logs and its trace. A link is left out if its setting is empty, or if its
    URL needs a trace id and the run has none.
    """
    values = {"run_id": run.id, "trace_id": str(run.details.get("trace_id") or "")}
    templates = (("Logs", settings.log_url), ("Open the trace", settings.trace_url))
    return [
        (word, filled_link(template, values))
        for word, template in templates
        if template and (values["trace_id"] or "{trace_id}" not in template)
    ]


def nodes_of(runs: AuthorizedClient, run: Run) -> Mapping[str, str]:
    """Return the role of each node of a run's flow, by the node's name.

    The result is empty if neither this process nor a live worker knows the flow.
    """
    flow = runs.flows().get(run.flow)
    return flow["nodes"] if flow else {}
