"""Standing: everything that says where a run stands, read in one exchange."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

#: A worker whose last announcement is older than this many heartbeats does not count as alive.
ALIVE_BEATS = 10


@dataclass(frozen=True)
class WorkerSeen:
    """A worker as it announced itself: its name, its last beat (ms), and what it said of itself."""

    name: str
    beat: float
    info: Mapping[str, Any] = field(default_factory=dict)

    def plays(self, role: str) -> bool:
        """Whether it takes rounds of this role; one that is draining takes none."""
        return self.info.get("role") in (role, "all") and not self.info.get("draining")

    def knows(self, flow: str) -> bool:
        """Whether it plays this flow."""
        return flow in self.info.get("flows", {})

    def refuses(self, flow: str) -> bool:
        """Whether it has this flow, and nobody enabled it there."""
        return flow in self.info.get("disabled", ())


@dataclass(frozen=True)
class Standing:
    """One read of a run and of what stands around it. Times in ms of the server's clock.

    Attributes:
        fields: the run's hash. now: when it was read.
        due: when the run is looked at next; None where it is in nobody's care.
        queues: the queues hash: ``LIST:pushed``, ``LIST:cursor``, the sweep's last time and last silence.
        length: of the list that the run's message is for; None where the broker does not answer.
        place: of that message among those at the consuming end, the next to be taken being 1; None where it is not among them.
        workers: all that announced themselves lately.
        damage: the key or the field on account of which no transition reads the run; then nothing but ``fields`` was read.
        paused: who paused the run's flow, when and why (JSON); None where it is not paused.
    """

    fields: Mapping[str, str]
    now: int
    due: float | None = None
    queues: Mapping[str, str] = field(default_factory=dict)
    length: int | None = 0
    place: int | None = None
    workers: Sequence[WorkerSeen] = ()
    paused: str | None = None
    damage: str | None = None
