"""The timeline of a run.

Each round is a row with its time in the queue and its duration. Other events are rows between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

from perdure.flows.summaries import SHOWN_CHARACTERS
from perdure.worker.domain.event import Event, is_trimmed
from perdure.worker.domain.run import Run
from perdure.worker.presentation.timeline import Row, command_text, row_of, value_short
from perdure.worker.presentation.usage import used_and_cached

#: Types of events after which the run's next round is ready for a worker.
MAKES_READY = (
    "submitted",
    "committed",
    "resumed",
    "retried",
    "given_back",
    "lost",
    "resent",
    "woken",
)


@dataclass(frozen=True)
class Entry:
    """One row of a run's timeline.

    Attributes:
        role: ``controller`` or ``executor``, the role of the round's node.
        wait: Seconds from when the round was ready until a worker took it. None if unknown.
    """

    event: Event
    row: Row
    role: str
    wait: float | None = None

    @property
    def id(self) -> str:
        """The id of a timeline row on the page, which is the id of its event in the run."""
        return self.event.id

    @property
    def began(self) -> datetime:
        """The time at which the work of a timeline row began.

        For an event without a duration, it is the time at which the event happened.
        """
        return self.event.at - timedelta(seconds=self.row.took or 0.0)

    @property
    def command(self) -> str:
        """The command that a round chose or executed, with its arguments; '' for other events."""
        return (
            command_text(self.event.data)
            if self.row.is_round and "command" in self.event.data
            else ""
        )

    @property
    def result(self) -> str:
        """What a round did, without the command if ``command`` has it already."""
        data = self.event.data
        if not self.command or "did" not in data or "observation" not in data:
            return self.row.text
        replayed = f" · {data['replayed']} replayed" if "replayed" in data else ""
        return f"{value_short(data['observation'])}{replayed}"

    @property
    def cost(self) -> str:
        """The tokens and money that the round of a timeline row used, as text."""
        return used_and_cached(self.event.data)

    @property
    def remarks(self) -> list[tuple[str, str]]:
        """The names and texts of what a controller remarked besides the command it chose."""
        names = ("thought", "reasoning", "plan", "criticism", "speak")
        return [(name, str(self.event.data[name])) for name in names if self.event.data.get(name)]

    @property
    def turn_digest(self) -> str:
        """The digest of a round's observation if its event holds only the beginning, else ''."""
        observation = self.event.data.get("observation")
        return (
            str(self.event.data.get("digest", ""))
            if isinstance(observation, str) and len(observation) >= SHOWN_CHARACTERS
            else ""
        )


@dataclass(frozen=True)
class Timeline:
    """Rows of a run, newest first.

    Attributes:
        before: Id of the event before which older rows begin. None if there are no older rows.
        in_flight: The round in flight, or empty.
    """

    entries: Sequence[Entry]
    before: str | None = None
    in_flight: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def longest(self) -> float:
        """The seconds of the timeline's longest round, with its wait in the queue.

        The bars of the rows are relative to it.
        """
        return (
            max(
                [
                    (each.wait or 0.0) + (each.row.took or 0.0)
                    for each in self.entries
                    if each.row.is_round
                ],
                default=0.0,
            )
            or 1.0
        )

    @property
    def roles(self) -> list[str]:
        """The roles of the timeline's rounds. Each has a column of its own."""
        return sorted({each.role for each in self.entries if each.row.is_round})

    @property
    def rounds(self) -> int:
        """The number of the timeline's rows that are rounds."""
        return sum(each.row.is_round for each in self.entries)

    @cached_property
    def marks(self) -> Strip:
        """All rows of the timeline on one time axis, for a small picture."""
        return Strip(self.entries)

    def bar(self, entry: Entry) -> tuple[float, float]:
        """Return how wide the bars of a timeline row's wait and work are, in percent."""
        return 100 * (entry.wait or 0.0) / self.longest, max(
            100 * (entry.row.took or 0.0) / self.longest, 0.75
        )


class Strip:
    """All rows on one time axis from 0 to 1000, for a small picture."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.entries = entries
        moments = [each.event.at for each in entries] + [each.began for each in entries]
        self.first = min(moments, default=datetime.now(UTC))
        self.last = max(moments, default=self.first)

    @property
    def seconds(self) -> float:
        """The seconds that the timeline's axis covers."""
        return (self.last - self.first).total_seconds()

    def rounds(self) -> Iterable[tuple[Entry, float, float, float]]:
        """Yield each round with the positions at which the timeline's axis shows it.

        They are the start of its wait, the start of its work, and the width of its work.
        """
        for each in self.entries:
            if each.row.is_round:
                begins = self._at(each.began)
                waits = self._at(each.began - timedelta(seconds=each.wait or 0.0))
                yield each, min(waits, begins), begins, max(self._at(each.event.at) - begins, 1.5)

    def others(self) -> Iterable[tuple[Entry, float]]:
        """Yield the events that are not rounds, with their positions on the timeline's axis.

        Submission and completion are left out, because they are the ends of the axis. So are
        messages that were sent again.
        """
        for each in self.entries:
            if not each.row.is_round and each.event.type not in (
                "submitted",
                "completed",
                "resent",
                "trimmed",
            ):
                yield each, self._at(each.event.at)

    def _at(self, moment: datetime) -> float:
        return round(
            max(0.0, 1000 * (moment - self.first).total_seconds() / (self.seconds or 1.0)), 2
        )


def timeline(run: Run, events: Sequence[Event], roles: Mapping[str, str], limit: int) -> Timeline:
    """Return the timeline of a run from its events, which must be ordered oldest first.

    If there are more than ``limit`` events, the first is not shown. It only tells when the next
    round was ready.

    Args:
        roles: Role of each node by name. For a missing node, the name decides.
    """
    entries: list[Entry] = []
    ready: datetime | None = None
    for event in events:
        row = row_of(event)
        wait = None
        if row.is_round and ready is not None:
            wait = max(0.0, (event.at - timedelta(seconds=row.took or 0.0) - ready).total_seconds())
        role = roles.get(event.node) or (
            "controller" if "controller" in event.node.casefold() else "executor"
        )
        entries.append(Entry(event, row, role, wait))
        if event.type in MAKES_READY:
            ready = event.at if event.type != "resent" else ready
        elif event.type == "failed":
            ready = event.at + timedelta(milliseconds=_number(event.data.get("retry_in")))
        else:
            ready = None
    shown = entries[-limit:]
    before = shown[0].id if len(entries) > limit else None
    if before is None and events and is_trimmed(None, events[0], None):
        first = Event.trimmed(events[0])
        shown.insert(0, Entry(first, row_of(first), shown[0].role, None))
    return Timeline(shown[::-1], before, _in_flight(run))


def _in_flight(run: Run) -> dict[str, Any]:
    """Return facts about the run's round that a worker plays now, or an empty dict."""
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
