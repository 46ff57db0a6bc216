"""Reads of event streams, and of other Redis streams."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from perdure.worker.store.part import StorePart


class EventReads(StorePart):
    """Reads of events (``store.events``)."""

    def read(
        self, run_id: str, after: str | None = None, block: int | None = None, count: int = 500
    ) -> list[tuple[str, dict[str, str]]]:
        """Return a run's events, oldest first.

        Args:
            after: the id of an event. Only later events are read. None: read from the first event
                on.
            block: wait up to this many ms for an event. None: do not wait.
            count: the maximum number of events.

        Returns:
            Pairs of an event's id and its fields. Empty if the run has no such event.
        """
        return self.read_many({run_id: after or "0"}, block, count).get(run_id, [])

    def read_many(
        self, after: Mapping[str, str], block: int | None = None, count: int = 500
    ) -> dict[str, list[tuple[str, dict[str, str]]]]:
        """Return the events of several runs, by run id.

        One command reads them. A run without new events is left out.

        Args:
            after: for each run id, the id of an event. Only later events are read.
            block: wait up to this many ms until one of the runs has an event. None: do not wait.
            count: the maximum number of events of each run.

        Returns:
            Pairs of an event's id and its fields, oldest first, by run id.
        """
        keys = {self.keys.events(run_id): run_id for run_id in after}
        found = self.read_streams(
            {key: after[run_id] for key, run_id in keys.items()}, block, count
        )
        return {keys[key]: entries for key, entries in found.items()}

    def read_streams(
        self, after: Mapping[str, str], block: int | None = None, count: int = 500
    ) -> dict[str, list[tuple[str, dict[str, str]]]]:
        """Return the new entries of several streams, by key.

        One command reads them. A stream without new entries is left out.

        Args:
            after: for each key, the id of an entry. Only later entries are read.
            block: wait up to this many ms until one of the streams has an entry. None: do not wait.
            count: the maximum number of entries of each stream.

        Returns:
            Pairs of an entry's id and its fields, oldest first, by the stream's key.
        """
        places: dict[Any, Any] = dict(after)
        with self._store._answered():
            streams: Any = self._store.redis.xread(places, count=count, block=block)
        return {key: _flat(entries) for key, entries in _pairs(streams)}

    def read_with_oldest(
        self, run_id: str, after: str | None, count: int = 500
    ) -> tuple[list[tuple[str, dict[str, str]]], str | None]:
        """Return a run's events after an event, and the id of its oldest event.

        The result shows the stream at one moment: if the stream is trimmed meanwhile, it is read
        again.

        Args:
            after: the id of an event. Only later events are read. None: read from the first event
                on.
            count: the maximum number of events.

        Returns:
            The events, oldest first, and the id of the oldest stored event. The id is None if the
            run has no events.
        """
        key = self.keys.events(run_id)
        while True:
            # No MULTI: a server that is full would refuse even to read in one.
            with (
                self._store._answered(),
                self._store.redis.pipeline(transaction=False) as pipe,
            ):
                pipe.xread({key: "0"}, count=1)
                pipe.xread({key: after or "0"}, count=count)
                pipe.xread({key: "0"}, count=1)
                before, events, oldest = (
                    [entry for _, entries in _pairs(streams) for entry in _flat(entries)]
                    for streams in pipe.execute()
                )
            if before == oldest or not oldest:  # nothing was trimmed meanwhile, or all is deleted
                return events, oldest[0][0] if oldest else None

    def oldest(self, run_ids: Sequence[str]) -> dict[str, str]:
        """Return the id of each run's oldest event. A run without events is left out."""
        keys = {self.keys.events(run_id): run_id for run_id in run_ids}
        with self._store._answered():
            streams: Any = self._store.redis.xread(dict.fromkeys(keys, "0"), count=1)
        return {keys[key]: _flat(entries)[0][0] for key, entries in _pairs(streams)}

    def newest(
        self, run_id: str, count: int, names: Sequence[str]
    ) -> tuple[list[tuple[str, dict[str, str]]], dict[str, str]]:
        """Return a run's newest events and some stored fields.

        Args:
            count: the maximum number of events.
            names: the names of the fields.

        Returns:
            The events, newest first, and the fields by name. Fields that the run does not have are
            left out.
        """
        with (
            self._store._answered(),
            self._store.redis.pipeline(transaction=False) as pipe,
        ):
            pipe.xrevrange(self.keys.events(run_id), count=count)
            pipe.hmget(self.keys.run(run_id), names)
            entries, texts = pipe.execute()
        return entries, {
            name: text for name, text in zip(names, texts, strict=True) if text is not None
        }

    def latest(
        self, run_id: str, count: int, before: str | None = None
    ) -> list[tuple[str, dict[str, str]]]:
        """Return a run's newest events, oldest first.

        Args:
            count: the maximum number of events.
            before: the id of an event. Only earlier events are read. None: up to the last event.

        Returns:
            Pairs of an event's id and its fields.
        """
        with self._store._answered():
            entries: Any = self._store.redis.xrevrange(
                self.keys.events(run_id), f"({before}" if before else "+", "-", count
            )
        return [(event, data) for event, data in reversed(entries)]


def _pairs(streams: Any) -> Iterable[tuple[str, list[Any]]]:
    """Return XREAD's reply as pairs of key and entries.

    redis-py returns a dict, a list or None, which depends on the protocol and on its version.
    """
    return streams.items() if isinstance(streams, dict) else streams or ()


def _flat(entries: list[Any]) -> list[tuple[str, dict[str, str]]]:
    """Return a Redis stream's entries as one flat list of pairs of id and fields.

    With RESP3, redis-py returns lists of entries in a list.
    """
    return [
        (event, data)
        for batch in entries
        for event, data in (batch if isinstance(batch, list) else [batch])
    ]
