"""Routes of flows, the inbox, stuck runs and the metrics for Prometheus."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response

from perdure.flows.core.names import suggest
from perdure.worker.domain.fleet import FlowInfo, FlowPause
from perdure.worker.domain.interrupt import Inbox
from perdure.worker.domain.verdict import Verdict
from perdure.worker.errors import UnknownFlow
from perdure.worker.web.api.requests import InboxPlace, PauseFlow
from perdure.worker.web.api.responses import (
    Paused,
    Unpaused,
)
from perdure.worker.web.api.routes import BODY_PROBLEMS, MostItems, problems, resource_router
from perdure.worker.web.auth.permissions import Runs
from perdure.worker.web.json_body import Json
from perdure.worker.web.problems import ProblemRoute

router = resource_router("fleet")


@router.get(
    "/stuck",
    operation_id="list_stuck",
    response_model=list[Verdict],
    responses=problems("invalid-request"),
)
def list_stuck(runs: Runs, limit: MostItems = 50) -> Response:
    """List the runs that make no progress and do not wait on purpose, each with the reason.

    `details.run` is the run's id. Only the most overdue, the oldest and the most recently errored
    runs are checked, so the cost does not depend on how many runs exist.
    """
    return Json([verdict.to_dict() for verdict in runs.stuck(limit)])


flows_router = resource_router("flows")

Name = Annotated[str, Path(description="The flow's name.", examples=["countdown"])]


@flows_router.get(
    "/flows/{name}",
    operation_id="get_flow",
    response_model=FlowInfo,
    responses=problems("unknown-flow"),
)
def get_flow(name: Name, runs: Runs) -> Response:
    """Return one flow."""
    flows = runs.flows()
    if name not in flows:
        raise UnknownFlow(f"unknown flow {name!r}; {suggest(name, flows)}")
    return Json(flows[name])


@flows_router.put(
    "/flows/{name}/pause",
    operation_id="pause_flow",
    response_model=Paused,
    responses=problems(*BODY_PROBLEMS, "invalid-input", "unknown-flow"),
)
def pause_flow(name: Name, runs: Runs, body: PauseFlow | None = None) -> Response:
    """Pause a flow: no further round of its runs starts.

    Rounds in flight finish, and new runs may be submitted.
    """
    is_new = runs.pause_flow(name, body.reason if body else None)
    return Json({"flow": name, "paused": True, "new": is_new, **_pause(runs.paused_flows()[name])})


@flows_router.delete(
    "/flows/{name}/pause",
    operation_id="unpause_flow",
    response_model=Unpaused,
    responses=problems("unknown-flow"),
)
def unpause_flow(name: Name, runs: Runs) -> Response:
    """Unpause a flow. If it is not paused, this is no error."""
    return Json({"flow": name, "paused": False, "offered": runs.unpause_flow(name)})


@flows_router.get(
    "/paused", operation_id="list_paused", response_model=dict[str, FlowPause], responses=problems()
)
def list_paused(runs: Runs) -> Response:
    """Return the paused flows by name: since when, by whom and why."""
    return Json({name: _pause(info) for name, info in runs.paused_flows().items()})


def _pause(info: FlowPause) -> dict[str, Any]:
    return {"at": info["at"].isoformat(), "by": info["by"], "reason": info["reason"]}


inbox_router = resource_router("inbox")


@inbox_router.get(
    "/inbox",
    operation_id="get_inbox",
    response_model=Inbox,
    responses=problems("invalid-request", "invalid-input", "run-not-found"),
)
def get_inbox(page: Annotated[InboxPlace, Query()], runs: Runs) -> Response:
    """List the runs that wait for a person, the longest wait first, each with its question.

    `POST /runs/{run_id}/resume` answers.
    """
    return Json(runs.inbox(page.limit, page.cursor, below=page.below).to_dict())


metrics_router = APIRouter(route_class=ProblemRoute)


@metrics_router.get("/metrics", include_in_schema=False)
def metrics(request: Request, runs: Runs) -> Response:
    """Return all metrics of docs/operations/metrics.md, in the format that the request prefers."""
    text, content_type = runs.metrics(request.headers.get("accept", ""))
    return Response(text, media_type=content_type)
