"""Fleet: the workers and flows that are there, and what is wrong with the place."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from flows import registry
from worker.announcement import describe
from worker.client import arguments
from worker.client.reading import Reading
from worker.errors import UnknownFlow
from worker.standing import ALIVE_BEATS

if TYPE_CHECKING:
    from worker.doctor import Finding


class Fleet(Reading):
    """Looks at workers, pauses flows, examines the server."""

    def workers(self) -> list[dict[str, Any]]:
        """The workers that announced themselves lately, each with ``name``, ``alive``, ``silent`` (seconds),
        and what it announced, among it ``draining``.
        """
        now = self._store.time()
        alive = ALIVE_BEATS * self.settings.heartbeat_seconds
        return [
            {"name": name, "silent": max(0.0, (now - beat) / 1000), "alive": (now - beat) / 1000 <= alive, **info}
            for name, beat, info in self._store.workers()
        ]

    def flows(self) -> dict[str, dict[str, Any]]:
        """The flows that this client or a live worker knows: description, nodes, limits, input schema, workers that play it."""
        self._find_flows()
        known = {name: {**describe(make()), "workers": []} for name, make in registry.registered().items()}
        for worker in self.workers():
            if worker["alive"]:
                for name, description in worker["flows"].items():
                    flow = known.setdefault(name, {**description, "workers": []})
                    flow["workers"].append(worker["name"])
                    if description.get("shipped") is False:  # one of a worker's own, in the place of the shipped one that is known here
                        flow["shipped"] = False
        return known

    def pause_flow(self, flow: str, reason: str | None = None, requested_by: str | None = None) -> bool:
        """Pause a flow: from now on no round of its runs is claimed; those in flight finish, and new runs may be submitted.

        Returns:
            Whether it was running until now; False where it was paused already.

        Raises:
            UnknownFlow: neither this client nor a live worker knows it, so it may be mistyped.
        """
        arguments.text(flow, "flow")
        arguments.notes(reason=reason, requested_by=requested_by)
        self._check_known(flow)
        return self._store.pauses.add(flow, requested_by, reason)

    def unpause_flow(self, flow: str) -> int:
        """Let a paused flow go on; returns how many runs were held and are offered again at once. Not paused: nothing happens.

        Raises:
            UnknownFlow: it is not paused, and neither this client nor a live worker knows it, so it may be mistyped.
        """
        arguments.text(flow, "flow")
        if flow not in self._store.pauses.all():
            self._check_known(flow)
        return self._store.pauses.remove(flow)

    def paused_flows(self) -> dict[str, dict[str, Any]]:
        """The paused flows, each with ``at`` (datetime), ``by`` and ``reason``."""
        return {flow: {**info, "at": datetime.fromtimestamp(info["at"] / 1000, UTC)} for flow, info in self._store.pauses.all().items()}

    def _check_known(self, flow: str) -> None:
        if flow not in (known := self.flows()):
            raise UnknownFlow(f"no flow is named {flow!r}; known are: {', '.join(known)}")

    def doctor(self) -> list[Finding]:
        """What voids or endangers the promises on this server and in this process, each with its remedy."""
        from worker.doctor import examine

        return examine(self._engine)
