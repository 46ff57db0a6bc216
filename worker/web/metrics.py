"""``GET /metrics``, for Prometheus. The router it stands in puts the caller's runs into the request."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from worker.web.permitted import Runs
from worker.web.problems import ProblemRoute

router = APIRouter(route_class=ProblemRoute)


@router.get("/metrics", include_in_schema=False)
def metrics(request: Request, runs: Runs) -> Response:
    """All of docs/metrics.md, in the format that the request prefers."""
    text, content_type = runs.metrics(request.headers.get("accept", ""))
    return Response(text, media_type=content_type)
