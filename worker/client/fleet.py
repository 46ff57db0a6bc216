"""The client part for workers, flows and server health."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, cast

from perdure.flows.core.names import suggest
from perdure.worker.client import validation
from perdure.worker.client.api import ClientApi
from perdure.worker.client.read import RunReads
from perdure.worker.domain.fleet import FlowInfo, FlowPause, WorkerInfo, WorkerStatus, describe
from perdure.worker.errors import UnknownFlow

if TYPE_CHECKING:
    from perdure.worker.doctor import Finding


class Fleet(RunReads, ClientApi):
    """Lists workers and flows, pauses flows, examines the server."""

    def workers(self) -> list[WorkerStatus]:
        now = self._store.time()
        return [
            WorkerInfo(*each).status(now, self.settings.heartbeat_seconds)
            for each in self._store.fleet.workers()
        ]

    def flows(self) -> dict[str, FlowInfo]:
        from perdure.flows.rounds import (
            registry,  # Loads flows, which no other method here needs.
        )

        self._find_flows()
        flows = {
            name: cast(FlowInfo, {**describe(make()), "workers": []})
            for name, make in registry.registered().items()
        }
        for worker in self.workers():
            if worker["alive"]:
                for name, description in worker["flows"].items():
                    flow = flows.setdefault(name, cast(FlowInfo, {**description, "workers": []}))
                    flow["workers"].append(worker["name"])
                    # The worker replaced a shipped flow by another flow of this name.
                    if description.get("shipped") is False:
                        flow["shipped"] = False
        return flows

    def pause_flow(
        self, flow: str, reason: str | None = None, requested_by: str | None = None
    ) -> bool:
        validation.text(flow, "flow")
        validation.notes(reason=reason, requested_by=requested_by)
        self._check_known(flow)
        return self._store.pauses.add(flow, requested_by, reason)

    def unpause_flow(self, flow: str) -> int:
        validation.text(flow, "flow")
        if flow not in self._store.pauses.all():
            self._check_known(flow)
        return self._store.pauses.remove(flow)

    def paused_flows(self) -> dict[str, FlowPause]:
        return {
            flow: cast(FlowPause, {**info, "at": datetime.fromtimestamp(info["at"] / 1000, UTC)})
            for flow, info in self._store.pauses.all().items()
        }

    def _check_known(self, flow: str) -> None:
        if flow not in (flows := self.flows()):
            raise UnknownFlow(f"unknown flow {flow!r}; {suggest(flow, flows)}")

    def doctor(self) -> list[Finding]:
        from perdure.worker.doctor import examine

        return examine(self._connection)
