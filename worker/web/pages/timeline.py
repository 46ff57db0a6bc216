"""Timeline: what happened to a run, as rows: a round each with its waiting and its work, and between them what came in between."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

from flows.summaries import SHOWN_CHARACTERS
from worker.event import Event
from worker.run import Run
from worker.words.costs import used
from worker.words.story import Row, command_text, row_of

#: After one of these, a round of the run may begin as soon as a worker takes it.
MAKES_READY = ("submitted", "committed", "resumed", "retried", "given_back", "lost", "resent")


@dataclass(frozen=True)
class Entry:
    """One row.

    Attributes:
        wait: seconds from when the round could have begun until a worker took it; None where that is not known.
        lane: ``controller`` or ``executor``: who played it.
    """

    event: Event
    row: Row
    lane: str
    wait: float | None = None

    @property
    def id(self) -> str:
        """Names the row on the page, and the event in the run."""
        return self.event.id

    @property
    def began(self) -> datetime:
        """When the work began; of what took no time, when it happened."""
        return self.event.at - timedelta(seconds=self.row.took or 0.0)

    @property
    def command(self) -> str:
        """The command that was decided on or carried out, and its arguments."""
        return command_text(self.event.data) if self.row.is_round and "command" in self.event.data else ""

    @property
    def cost(self) -> str:
        """What it used, in words."""
        return used(self.event.data)

    @property
    def said(self) -> list[tuple[str, str]]:
        """What a controller said beside its command, by its name."""
        names = ("thought", "reasoning", "plan", "criticism", "speak")
        return [(name, str(self.event.data[name])) for name in names if self.event.data.get(name)]

    @property
    def turn(self) -> str:
        """The digest of the observation that is shown only in part here; '' where it is whole."""
        seen = self.event.data.get("observation")
        return str(self.event.data.get("digest", "")) if isinstance(seen, str) and len(seen) >= SHOWN_CHARACTERS else ""


@dataclass(frozen=True)
class Timeline:
    """Rows, newest first; ``before``: from which event on older ones are to be had, None where these are all."""

    entries: Sequence[Entry]
    before: str | None = None
    in_flight: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def longest(self) -> float:
        """Seconds of the longest round with its waiting: what the bars of the rows are drawn to."""
        return max([(each.wait or 0.0) + (each.row.took or 0.0) for each in self.entries if each.row.is_round], default=0.0) or 1.0

    @property
    def rounds(self) -> int:
        """How many of the rows are rounds."""
        return sum(each.row.is_round for each in self.entries)

    @cached_property
    def marks(self) -> Strip:
        """All of it on one axis."""
        return Strip(self.entries)

    def bar(self, entry: Entry) -> tuple[float, float]:
        """Of a hundred: how far the waiting reaches, and how far the work from there."""
        return 100 * (entry.wait or 0.0) / self.longest, max(100 * (entry.row.took or 0.0) / self.longest, 0.75)


class Strip:
    """The rows on one time axis from 0 to 1000, for a picture of a few lines' height."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.entries = entries
        moments = [each.event.at for each in entries] + [each.began for each in entries]
        self.first = min(moments, default=datetime.now(UTC))
        self.last = max(moments, default=self.first)

    @property
    def seconds(self) -> float:
        """What the axis spans."""
        return (self.last - self.first).total_seconds()

    def rounds(self) -> Iterable[tuple[Entry, float, float, float]]:
        """Each round: where its waiting begins, where its work begins, and how wide that is."""
        for each in self.entries:
            if each.row.is_round:
                begins = self._at(each.began)
                waits = self._at(each.began - timedelta(seconds=each.wait or 0.0))
                yield each, min(waits, begins), begins, max(self._at(each.event.at) - begins, 1.5)

    def others(self) -> Iterable[tuple[Entry, float]]:
        """What came in between, and where; submissions and ends are the axis's own ends."""
        for each in self.entries:
            if not each.row.is_round and each.event.type not in ("submitted", "completed", "resent"):
                yield each, self._at(each.event.at)

    def _at(self, moment: datetime) -> float:
        return round(max(0.0, 1000 * (moment - self.first).total_seconds() / (self.seconds or 1.0)), 2)


def timeline(run: Run, events: Sequence[Event], roles: Mapping[str, str], limit: int) -> Timeline:
    """The rows of these events, which are oldest first; of more than ``limit`` the first tells only when the next could begin.

    Args:
        roles: who plays a node, by its name; one that is not there is played as its name says.
    """
    entries: list[Entry] = []
    ready: datetime | None = None
    for event in events:
        row = row_of(event)
        wait = None
        if row.is_round and ready is not None:
            wait = max(0.0, (event.at - timedelta(seconds=row.took or 0.0) - ready).total_seconds())
        lane = roles.get(event.node) or ("controller" if "controller" in event.node.casefold() else "executor")
        entries.append(Entry(event, row, lane, wait))
        if event.type in MAKES_READY:
            ready = event.at if event.type != "resent" else ready
        elif event.type == "failed":
            ready = event.at + timedelta(milliseconds=_number(event.data.get("retry_in")))
        else:
            ready = None
    shown = entries[-limit:]
    before = shown[0].id if len(entries) > limit else None
    return Timeline(shown[::-1], before, _in_flight(run))


def _in_flight(run: Run) -> dict[str, Any]:
    """The round that somebody plays now."""
    details = run.details
    if run.phase != "leased" or not details.get("owner"):
        return {}
    node = run.state.current_node
    return {
        "node": node,
        "owner": details["owner"],
        "attempt": details["attempt"],
        "since": details.get("claimed_at"),
        "step": run.state.step,
    }


def _number(value: Any) -> float:
    try:
        return float(value or 0)
    except (TypeError, ValueError):
        return 0.0
