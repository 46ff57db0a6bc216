"""Flows: what can be submitted, and which of it is paused."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Response

from flows.definition import known
from worker.errors import UnknownFlow
from worker.web.api.models.asking import PauseFlow
from worker.web.api.models.place import Flow, Pause, Paused, Unpaused
from worker.web.api.routing import OF_BODIES, problems, routed
from worker.web.bodies import Json
from worker.web.permitted import Runs

router = routed("flows")

Name = Annotated[str, Path(description="The flow's name.", examples=["countdown"])]


@router.get("/flows", operation_id="list_flows", response_model=dict[str, Flow], responses=problems())
def list_flows(runs: Runs) -> Response:
    """The flows that this server or a live worker knows, by name, each with the schema of its inputs."""
    return Json(runs.flows())


@router.get("/flows/{name}", operation_id="get_flow", response_model=Flow, responses=problems("unknown-flow"))
def get_flow(name: Name, runs: Runs) -> Response:
    """One of them."""
    flows = runs.flows()
    if name not in flows:
        raise UnknownFlow(f"no flow is named {name!r}; {known(name, flows)}")
    return Json(flows[name])


@router.put(
    "/flows/{name}/pause",
    operation_id="pause_flow",
    response_model=Paused,
    responses=problems(*OF_BODIES, "invalid-input", "unknown-flow"),
)
def pause_flow(name: Name, runs: Runs, body: PauseFlow | None = None) -> Response:
    """Pause a flow: no round of its runs is claimed any more. Rounds in flight finish, and new runs may be submitted."""
    new = runs.pause_flow(name, body.reason if body else None)
    return Json({"flow": name, "paused": True, "new": new, **_told(runs.paused_flows()[name])})


@router.delete("/flows/{name}/pause", operation_id="unpause_flow", response_model=Unpaused, responses=problems("unknown-flow"))
def unpause_flow(name: Name, runs: Runs) -> Response:
    """Let a paused flow go on. That it is not paused is no error."""
    return Json({"flow": name, "paused": False, "offered": runs.unpause_flow(name)})


@router.get("/paused", operation_id="list_paused", response_model=dict[str, Pause], responses=problems())
def list_paused(runs: Runs) -> Response:
    """The paused flows by name: since when, by whom and why."""
    return Json({name: _told(info) for name, info in runs.paused_flows().items()})


def _told(info: dict[str, Any]) -> dict[str, Any]:
    return {"at": info["at"].isoformat(), "by": info["by"], "reason": info["reason"]}
