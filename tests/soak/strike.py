"""Strike: one blow of the nemesis, and its recorded facts."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.soak.history import Fault


@dataclass
class Strike:
    """Begun at ``asked``; ``at`` is when it is known to have hit, None for not yet."""

    kind: str
    asked: float = field(default_factory=time.time)
    at: float | None = None
    whom: str = ""
    pids: list[int] = field(default_factory=list)
    said: str = ""

    def fired(self, whom: str, pids: Iterable[int] = ()) -> None:
        """Record that it has hit ``whom``; the first time counts if it comes in bursts.

        ``pids``: processes whose rounds it ended.
        """
        if self.at is None:
            self.at, self.whom, self.pids = time.time(), whom, list(pids)

    def note(self, text: str) -> None:
        """Add a remark for a reader of the report."""
        self.said = text

    def over(self) -> Fault:
        """Return the fault, which is mended."""
        hit = " ".join([self.whom, *map(str, self.pids), self.said]).strip()
        return Fault(self.kind, self.at or self.asked, self.at is not None, time.time(), hit)
