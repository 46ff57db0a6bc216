"""Probes: is the process there, and can it do anything? Whoever restarts it or sends it requests asks so, without a token."""

from __future__ import annotations

from fastapi import APIRouter, Response

from worker.client import Client
from worker.web.api.models.place import Ready, Up
from worker.web.api.routing import problem_responses, routed
from worker.web.bodies import Json


def probe_router(client: Client) -> APIRouter:
    """``/health`` and ``/ready``, for an app of one's own: where, beside the API, they are to be found. They tell nothing about runs."""
    probes = routed("probes")

    @probes.get("/health", operation_id="health", response_model=Up)
    async def health() -> Response:
        """The process is up. The state server is not asked, and no thread needed: this answers however busy those are."""
        return Json({"status": "up"})

    @probes.get("/ready", operation_id="ready", response_model=Ready, responses=problem_responses("no-server", "unsafe-server"))
    def ready() -> Response:
        """The state server answers, and keeps runs; how many workers are alive."""
        client._check_durability()
        return Json({"status": "ready", "workers": sum(worker["alive"] for worker in client.workers())})

    return probes
