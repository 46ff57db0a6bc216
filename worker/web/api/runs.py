"""Runs: submitted, listed and looked at."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from worker.web.permitted import Runs
from worker.web.problems import ProblemRoute

router = APIRouter(route_class=ProblemRoute, tags=["runs"])


@router.get("/runs/{run_id}")
def get(run_id: str, runs: Runs) -> dict[str, Any]:
    """The run as it is now."""
    return runs.get(run_id).to_dict()
