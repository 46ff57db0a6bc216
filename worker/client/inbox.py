"""Inbox: the runs that wait for a person."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from worker.client import arguments
from worker.client.reading import Reading
from worker.errors import DamagedRun
from worker.record import Record
from worker.run import Run
from worker.waiting import Waiting

#: Runs looked at in one exchange.
BATCH = 1000


@dataclass(frozen=True)
class Inbox:
    """Some of what waits for people, and the cursor that continues after it (None at the end); ``damaged`` names runs that do not read."""

    waiting: list[Waiting]
    cursor: str | None = None
    damaged: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Waiting]:
        return iter(self.waiting)

    def __len__(self) -> int:
        return len(self.waiting)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Inbox:
        """The page that ``to_dict`` told of; raises KeyError, ValueError where something is missing or cannot be."""
        return cls([Waiting.from_dict(each) for each in data["waiting"]], data["cursor"], tuple(data["damaged"]))

    def to_dict(self) -> dict[str, Any]:
        """The page as JSON data."""
        return {"waiting": [each.to_dict() for each in self], "cursor": self.cursor, "damaged": list(self.damaged)}


class Inboxes(Reading):
    """Looks for what people are asked."""

    def inbox(self, limit: int = 50, cursor: str | None = None, submitted_by: str | None = None) -> Inbox:
        """The runs (of one submitter) that wait for a person, longest first; ``cursor`` continues where a page ended."""
        arguments.limit(limit)
        arguments.submitter(submitted_by)
        place = arguments.inbox_cursor(cursor) or (-1, "")
        later = [entry for entry in self._interrupted(submitted_by) if entry > place]
        found: list[Waiting] = []
        damaged: list[str] = []
        for begin in range(0, len(later), limit):
            batch = later[begin : begin + limit]
            for entry, fields in zip(batch, self._store.records([run_id for _, run_id in batch]), strict=True):
                if fields is None or fields.get("phase") != "interrupted":  # answered, or gone, since it was listed
                    continue
                try:
                    waiting = Waiting.of(Run.of(Record(fields)))
                except DamagedRun:
                    damaged.append(entry[1])
                    continue
                found += [waiting] if waiting is not None else []
                if len(found) == limit:
                    more = entry != later[-1]
                    return Inbox(found, f"{entry[0]}:{entry[1]}" if more else None, tuple(damaged))
        return Inbox(found, damaged=tuple(damaged))

    def _interrupted(self, submitted_by: str | None) -> list[tuple[int, str]]:
        """Since when each waits (ms), and its id, in this order: the index itself goes by their submission."""
        found: list[tuple[int, str]] = []
        last: str | None = None
        while True:
            listed = self._store.listed("interrupted", BATCH, last)
            ids = [run_id for run_id, _ in listed]
            since = self._store.some_fields(ids, ["updated_at", "submitted_by"])
            found += [
                (_ms(fields.get("updated_at", "")), run_id)
                for run_id, fields in zip(ids, since, strict=True)
                if submitted_by in (None, fields.get("submitted_by"))
            ]
            if len(listed) < BATCH:
                return sorted(set(found))
            last = f"{listed[-1][1]}:{ids[-1]}"


def _ms(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 16 else 0
