"""The timeline of a run: one row for each event.

The row of a round also has the time for which the round waited for a worker, and its duration.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from perdure.flows.core.summaries import SHOWN_CHARACTERS
from perdure.worker.domain.event import Event, is_trimmed
from perdure.worker.domain.run import Run
from perdure.worker.presentation.timeline import Row, command_text, row_of, value_short
from perdure.worker.presentation.usage import used_and_cached
from perdure.worker.web.dashboard.documents import Frames, fields_of_args, frames_of
from perdure.worker.web.dashboard.outline import role_of_node

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
        role: The role of the event's node: ``controller`` or ``executor``.
        wait: Seconds for which a ready round waited for a worker. None if unknown, or if the event
            is no round.
    """

    event: Event
    row: Row
    role: str
    wait: float | None = None

    @property
    def id(self) -> str:
        """The id of the row's event."""
        return self.event.id

    @property
    def began(self) -> datetime:
        """The time at which the round began. For other events, the time of the event."""
        return self.event.at - timedelta(seconds=self.row.took or 0.0)

    @property
    def command(self) -> str:
        """The command of a round with its arguments, as text. '' for an event without a command."""
        return (
            command_text(self.event.data)
            if self.row.is_round and "command" in self.event.data
            else ""
        )

    @property
    def arguments(self) -> list[tuple[str, str]]:
        """The arguments of a round's command.

        They are pairs of name and text. The list is empty if the event has no arguments, or has
        only the beginning of their text.
        """
        try:
            return fields_of_args(json.loads(str(self.event.data.get("args", ""))))
        except (ValueError, RecursionError):
            return []

    @property
    def text(self) -> str:
        """The beginning of a round's observation, with its line breaks.

        '' if the observation is no text. '' also for a text of one line, which the row itself shows
        in full or cut.
        """
        observation = self.event.data.get("observation")
        return observation if isinstance(observation, str) and "\n" in observation else ""

    @property
    def frames(self) -> list[Frames]:
        """The parts of a failure's traceback. One empty part if the event has no traceback."""
        return frames_of(str(self.event.data.get("traceback") or ""))

    @property
    def result(self) -> str:
        """The result of a round as text, on one line.

        For a step of a workflow, it is the observation without the command, which ``command`` has.
        For any other event, it is the text of the row.
        """
        data = self.event.data
        if not self.command or "did" not in data or "observation" not in data:
            return self.row.text
        replayed = f" · {data['replayed']} replayed" if "replayed" in data else ""
        return f"{value_short(data['observation'])}{replayed}"

    @property
    def cost(self) -> str:
        """The round's tokens and money as text."""
        return used_and_cached(self.event.data)

    @property
    def remarks(self) -> list[tuple[str, str]]:
        """A controller's remarks beside its command.

        They are pairs of kind and text.
        """
        names = ("thought", "reasoning", "plan", "criticism", "speak")
        return [(name, str(self.event.data[name])) for name in names if self.event.data.get(name)]

    @property
    def turn_digest(self) -> str:
        """The digest of a round's observation, to find the whole text.

        '' if the event has the whole observation, or none.
        """
        observation = self.event.data.get("observation")
        return (
            str(self.event.data.get("digest", ""))
            if isinstance(observation, str) and len(observation) >= SHOWN_CHARACTERS
            else ""
        )


@dataclass(frozen=True)
class Timeline:
    """A part of a run's timeline.

    Attributes:
        entries: The rows, newest first.
        before: Id of the oldest event that is shown, from which older rows continue. None if there
            are no older rows.
        in_flight: Facts about the round in flight. Empty if no round is in flight.
    """

    entries: Sequence[Entry]
    before: str | None = None
    in_flight: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def longest(self) -> float:
        """The duration of the longest round in seconds, including its wait for a worker.

        The bars of all rows are relative to this duration. 1 if no round took time.
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
        """The roles that have rounds in the timeline. Each role has a column of its own."""
        return sorted({each.role for each in self.entries if each.row.is_round})

    @property
    def rounds(self) -> int:
        """The number of the timeline's rows that are rounds."""
        return sum(each.row.is_round for each in self.entries)

    def bar(self, entry: Entry) -> tuple[float, float]:
        """Return the widths of a row's two bars, in percent.

        The first bar is the wait for a worker, the second is the execution.
        """
        return 100 * (entry.wait or 0.0) / self.longest, max(
            100 * (entry.row.took or 0.0) / self.longest, 0.75
        )


def timeline(run: Run, events: Sequence[Event], roles: Mapping[str, str], limit: int) -> Timeline:
    """Return the timeline of a run from its events.

    Args:
        events: Events of the run, oldest first. Pass one more than ``limit``: the oldest is not
            shown, but has the time at which the round after it was ready.
        roles: Role of each node by name. For a missing node, ``role_of_node`` decides.
        limit: Maximum number of rows. If older events were trimmed, one more row says so.
    """
    entries: list[Entry] = []
    ready: datetime | None = None
    for event in events:
        row = row_of(event)
        wait = None
        if row.is_round and ready is not None:
            wait = max(0.0, (event.at - timedelta(seconds=row.took or 0.0) - ready).total_seconds())
        role = role_of_node(roles, event.node)
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
    """Return facts about the run's round in flight. Empty if no round is in flight."""
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
