"""Event: one entry of a run's event stream, its commit log.

The stream also records events between the commits: stops, failures, lost workers, resent
messages.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from perdure.worker.domain.document import Document
from perdure.worker.domain.record import VALUE
from perdure.worker.errors import DamagedRun

#: Event types that end a run. Nothing follows them until the run is resumed or retried.
LAST = ("completed", "errored", "stopped")
#: Type of the event that stands for older ones, which are gone.
TRIMMED = "trimmed"
#: Type of a run's first event.
FIRST = "submitted"
#: The largest second part of an event's id that clients accept.
LAST_NUMBER = 2**63 - 1
#: Fields of a stream entry that become attributes of the event. The others become its data.
FRAME = ("type", "at", "step", "attempt", "node")
#: Field of a stream entry with the named values that a run begins with, as JSON. Also the key, in
#: the data of an event, of the values that the event records (worker/domain/value_log.py).
VALUES = "values"
#: Field of a round's entry with a digest of all values before it. The values that the round changed
#: are fields whose names begin with VALUE, each with its JSON.
BEFORE = "before"
#: Fields of a stream entry whose text is JSON.
JSON = ("data", "answer", VALUES)


@dataclass(frozen=True)
class Event(Document):
    """One entry of a run's event stream."""

    id: str
    """Position among the events of the run. It can be passed back as ``after``."""
    type: str
    """One of ``submitted``, ``committed``, ``interrupted``, ``resumed``, ``stop_requested``,
    ``stopped``, ``completed``, ``errored``, ``retried``, ``failed``, ``waits``, ``lost``,
    ``resent``, ``given_back`` (the worker released the round), ``handed_on`` (a worker that
    cannot play the round moved its message to a queue of other workers), ``parked`` (its node
    waits), ``signalled``, ``woken``, ``unread`` (the run ended, and no round has read these
    signals), ``renewed`` (the run started again at its first node). ``trimmed`` stands for older
    events, which are gone. It is not stored.
    """
    at: datetime
    """Time of the event, by the clock of the state server."""
    step: int
    """The step that it belongs to."""
    attempt: int
    """The attempt at that step."""
    node: str
    """The node that it belongs to."""
    data: Mapping[str, Any] = field(default_factory=dict)
    """Further JSON data, which depends on the type."""

    @classmethod
    def of(cls, entry_id: str, entry: Mapping[str, str]) -> Event:
        """Build an event of a run from an entry of the run's event stream.

        Raises:
            DamagedRun: The entry is not a valid event.
        """
        try:
            return cls._read(entry_id, entry)
        except (ValueError, LookupError, OverflowError, RecursionError) as error:
            raise DamagedRun(
                f"event {entry_id} of a run cannot be read: {type(error).__name__}: {error}"
            ) from error

    @classmethod
    def trimmed(cls, following: Event) -> Event:
        """Build the event that stands for the deleted events before ``following``.

        Its id is the last possible one before ``following``. A client that passes it as ``after``
        gets ``following`` next.
        """
        return replace(
            following,
            id=id_before(following.id),
            type=TRIMMED,
            attempt=0,
            data={"before": following.id},
        )

    @classmethod
    def _read(cls, entry_id: str, entry: Mapping[str, str]) -> Event:
        data: dict[str, Any] = {}
        if BEFORE in entry:
            data[VALUES] = {}
        for name, text in entry.items():
            if name.startswith(VALUE):
                data.setdefault(VALUES, {})[name.removeprefix(VALUE)] = json.loads(text)
            elif name in JSON:
                value = json.loads(text)
                data |= (
                    value
                    if name == "data" and isinstance(value, dict)
                    else {}
                    if value is None
                    else {name: value}
                )
            elif name not in FRAME and text != "":
                data[name] = text
        at = datetime.fromtimestamp(int(entry["at"]) / 1000, UTC)
        return cls(
            entry_id,
            entry["type"],
            at,
            int(entry["step"]),
            int(entry["attempt"]),
            entry["node"],
            data,
        )


def position_of(event_id: str) -> tuple[int, int]:
    """Return an event's id as two numbers, for comparisons.

    A second part that is missing counts as 0.
    """
    ms, _, number = event_id.partition("-")
    return int(ms), int(number or 0)


def id_before(event_id: str) -> str:
    """Return the largest event id that is smaller than ``event_id``."""
    ms, number = position_of(event_id)
    return f"{ms}-{number - 1}" if number else f"{ms - 1}-{LAST_NUMBER}"


def is_trimmed(after: str | None, first: Event, oldest: str | None) -> bool:
    """Return whether events were deleted between ``after`` and ``first``.

    Args:
        after: The id after which events were read. None or ``0-0``: from the beginning.
        first: The first event that was read.
        oldest: The id of the run's oldest stored event. Ignored if the events were read from the
            beginning. Otherwise, None means that no event counts as deleted.
    """
    if after is None or position_of(after) == (0, 0):
        return first.type != FIRST
    return oldest is not None and position_of(after) < position_of(id_before(oldest))
