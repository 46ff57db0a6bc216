"""Strike: one blow of the nemesis, and what is known of it."""

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
        """It has hit ``whom``; the first time counts where it comes in bursts. ``pids``: processes whose rounds it ended."""
        if self.at is None:
            self.at, self.whom, self.pids = time.time(), whom, list(pids)

    def note(self, text: str) -> None:
        """Something about it that a reader of the report should know."""
        self.said = text

    def over(self) -> Fault:
        """It is mended."""
        hit = " ".join([self.whom, *map(str, self.pids), self.said]).strip()
        return Fault(self.kind, self.at or self.asked, self.at is not None, time.time(), hit)
