"""Event: one entry of a run's event stream, its commit log.

The stream also records what happened between the commits: stops, failures, lost workers, resent
messages.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from perdure.worker.domain.document import Document
from perdure.worker.errors import DamagedRun

#: Event types that end a run. Nothing follows them until the run is resumed or retried.
LAST = ("completed", "errored", "stopped")
#: Fields of a stream entry that become attributes of the event. The others become its data.
FRAME = ("type", "at", "step", "attempt", "node")
#: Fields of a stream entry whose text is JSON.
JSON = ("data", "answer")


@dataclass(frozen=True)
class Event(Document):
    """One entry of a run's event stream."""

    id: str
    """Position among the events of the run. It can be passed back as ``after``."""
    type: str
    """One of ``submitted``, ``committed``, ``interrupted``, ``resumed``, ``stop_requested``,
    ``stopped``, ``completed``, ``errored``, ``retried``, ``failed``, ``waits``, ``lost``,
    ``resent``, ``given_back`` (the worker released the round), ``handed_on`` (the round was given
    to another process), ``parked`` (its node waits), ``signalled``, ``woken``,
    ``unread`` (the run ended, and has not heard these signals).
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
    def _read(cls, entry_id: str, entry: Mapping[str, str]) -> Event:
        data: dict[str, Any] = {}
        for name, text in entry.items():
            if name in JSON:
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
