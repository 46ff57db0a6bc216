"""Reads that need no transition, and the announcements of workers."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any, cast

from perdure.flows.core.files import (
    BYTES,
    TYPE,
    File,
    FileReference,
    artifact_name,
    file_of,
    is_of_file,
)
from perdure.worker.domain.children import child_of
from perdure.worker.domain.event import FIRST
from perdure.worker.errors import AccessDenied
from perdure.worker.store.connection import StoreConnection
from perdure.worker.store.keys import CHILD_INDEXES, INDEXES
from perdure.worker.store.replies import StoredSignal, signal_of

#: The search for a process's leases in the due set begins at runs that were due this many ms ago.
LATE_MS = 5_000
#: Hashes or entries that a script reads in one exchange. It takes about 2 ms of the server.
MANY = 1_000
#: All scores of a sorted set.
ALWAYS = (-math.inf, math.inf)
#: Stands for the reply to a read of a key that is not a hash.
MISTYPED: dict[str, str] = {}


class Queries(StoreConnection):
    """Reads of runs, queues and workers.

    Its only writes are the announcements of workers and the removal of index entries that are no
    longer needed.
    """

    def fields(self, run_id: str) -> dict[str, str] | None:
        """Return all fields of a run's hash, or None if there is no such run."""
        with self._answered():
            return cast(dict[str, str], self.redis.hgetall(self.keys.run(run_id))) or None

    def holds(self, run_id: str, token: str, claim: str) -> bool:
        """Return whether a claim still holds a run's lease, and no stop was requested.

        The claim is named by its token and its id.
        """
        names = ("phase", "token", "claim_id", "stop_current_execution")
        with self._answered():
            phase, *held, stop = cast(
                "list[str | None]", self.redis.hmget(self.keys.run(run_id), names)
            )
        return phase == "leased" and held == [token, claim] and stop != "stop_requested"

    def memory(self, run_id: str, start: int = 0, stop: int | None = None) -> list[str]:
        """Return stored entries of a run's history, each the packed text of one turn.

        They are those from ``start`` up to, but not including, ``stop``. The default is all
        entries.
        """
        with self._answered():
            return cast(
                list[str],
                self.redis.lrange(
                    self.keys.memory(run_id), start, -1 if stop is None else stop - 1
                ),
            )

    def run_of_topic(self, topic: str) -> str | None:
        """Return the run that holds a topic and has not completed, or None."""
        with self._answered():
            run_id, nonce = cast(
                "list[str | None]", self.redis.hmget(self.keys.topic(topic), ("run", "nonce"))
            )
            if not run_id:
                return None
            stored, phase = cast(
                "list[str | None]", self.redis.hmget(self.keys.run(run_id), ("nonce", "phase"))
            )
        return run_id if stored == nonce and phase not in (None, "completed") else None

    def signal_counts(self, run_id: str, names: Sequence[str]) -> dict[str, tuple[int, int]]:
        """Return, by signal name, the numbers of a run's newest taken and newest signal."""
        wanted = [f"{name}:{which}" for name in names for which in ("taken", "last")]
        with self._answered():
            found = cast("list[str | None]", self.redis.hmget(self.keys.mailbox(run_id), wanted))
        counts = [int(text or 0) for text in found]
        return dict(zip(names, zip(counts[::2], counts[1::2], strict=True), strict=True))

    def signals(self, run_id: str, wanted: Sequence[tuple[str, int]]) -> list[StoredSignal | None]:
        """Return signals from a run's mailbox by name and number; None for a missing one."""
        fields = [f"{name}:{number}" for name, number in wanted]
        with self._answered():
            found = cast("list[str | None]", self.redis.hmget(self.keys.mailbox(run_id), fields))
        return [signal_of(text) if text else None for text in found]

    def signal_names(self, run_id: str) -> list[str]:
        """Return the names of all signals that a run has got."""
        with self._answered():
            fields = cast("list[str]", self.redis.hkeys(self.keys.mailbox(run_id)))
        return sorted(name.removesuffix(":last") for name in fields if name.endswith(":last"))

    def newest_of_topic(self, topic: str) -> str | None:
        """Return the id of the run that holds a topic, or held it last; None if there is none."""
        with self._answered():
            found = self.redis.hmget(self.keys.topic(topic), ["run", "before"])
        holder, before = cast("list[str | None]", found)
        return holder or (before or "").partition(" ")[0] or None

    def reply(self, run_id: str, name: str, number: int) -> str | None:
        """Return what a run replied to a signal, as JSON text; None if it did not."""
        with self._answered():
            field = f"{name}:reply:{number}"
            return cast("str | None", self.redis.hget(self.keys.mailbox(run_id), field))

    def counts_of_children(self, run_id: str, group: str) -> dict[str, int]:
        """Return how many children a run's group has: in all, started, ended (ok, bad), and held.

        Empty if there is no such group.
        """
        key, names = self.keys.group(run_id, group), ("total", "started", "ok", "bad", "held")
        with self._answered():
            texts = cast("list[str | None]", self.redis.hmget(key, names))
        return {
            name: int(text) for name, text in zip(names, texts, strict=True) if text is not None
        }

    def children_that_ask(self, run_id: str, nonce: str, group: str, started: int) -> list[str]:
        """Return the ids of a group's children that wait for a person, of the last 200 started.

        Args:
            nonce: the run's.
            started: the number of children that were started.
        """
        places = range(max(0, started - 200), started)
        ids = [child_of(run_id, nonce, group, place)[0] for place in places]
        asking = {"phase": "interrupted"}
        found = zip(ids, self.some_fields(ids, ["phase"]), strict=True)
        return [child for child, fields in found if fields == asking]

    def group(self, run_id: str, name: str) -> dict[str, str]:
        """Return what is stored of a group of a run's children (parts/family.lua)."""
        with self._answered():
            return cast("dict[str, str]", self.redis.hgetall(self.keys.group(run_id, name)))

    def failed_children(self, run_id: str, group: str, only_held: bool = False) -> list[int]:
        """Return the places of a group's children that errored, held back or not."""
        return sorted(
            int(name.partition(":")[2])
            for name, text in self.group(run_id, group).items()
            if (not only_held and name.startswith("end:") and text.startswith("bad errored "))
            or (name.startswith("held:") and text == "errored")
        )

    def held_children(self, run_id: str, nonce: str, group: str) -> list[tuple[str, str]]:
        """Return the ids of a group's children that a person has to continue, and their status."""
        return [
            (child_of(run_id, nonce, group, int(name.removeprefix("held:")))[0], status)
            for name, status in sorted(self.group(run_id, group).items())
            if name.startswith("held:")
        ]

    def artifact(self, run_id: str, name: str) -> str | None:
        """Return the text of one of a run's artifacts, or None if it has none of this name."""
        with self._answered():
            return cast("str | None", self.redis.hget(self.keys.artifacts(run_id), name))

    def file(self, run_id: str, name: str) -> File | None:
        """Return one of a run's files, or None if it has none of this name.

        A fork also has files under the names of child runs: ``RUN/NAME``.
        """
        names = [artifact_name(BYTES, name), artifact_name(TYPE, name)]
        with self._answered():
            content, media_type = cast(
                "list[str | None]", self.redis.hmget(self.keys.artifacts(run_id), names)
            )
        if content is None or media_type is None:
            return None
        return file_of(name, content, media_type)

    def artifacts(self, run_id: str) -> dict[str, int]:
        """Return the names of a run's artifacts, each with its size in bytes.

        The artifacts that hold the media types of files are left out.
        """
        key = self.keys.artifacts(run_id)
        with self._answered(), self.redis.pipeline(transaction=False) as pipe:
            names = sorted(cast(list[str], self.redis.hkeys(key)))
            names = [name for name in names if not is_of_file(name, (TYPE,))]
            for name in names:
                pipe.hstrlen(key, name)
            return dict(zip(names, pipe.execute(), strict=True))

    def files(self, run_id: str) -> list[FileReference]:
        """Return the names, media types and sizes of a run's files."""
        key = self.keys.artifacts(run_id)
        with self._answered(), self.redis.pipeline(transaction=False) as pipe:
            found = cast(list[str], self.redis.hkeys(key))
            names = sorted(name.removeprefix(TYPE) for name in found if name.startswith(TYPE))
            for name in names:
                pipe.hget(key, TYPE + name)
                pipe.hstrlen(key, BYTES + name)
            told = pipe.execute()
        return [
            FileReference(name, media_type, size)
            for name, media_type, size in zip(names, told[::2], told[1::2], strict=True)
            if media_type is not None
        ]

    def events(
        self, run_id: str, after: str | None = None, block: int | None = None, count: int = 500
    ) -> list[tuple[str, dict[str, str]]]:
        """Return the events of a run after the event id ``after``, oldest first.

        Args:
            after: None: from the first event.
            block: wait up to this many ms for an event.
        """
        return self.events_of({run_id: after or "0"}, block, count).get(run_id, [])

    def events_of(
        self, after: Mapping[str, str], block: int | None = None, count: int = 500
    ) -> dict[str, list[tuple[str, dict[str, str]]]]:
        """Return the events of several runs by run id, for each run after an event id of its own.

        One command reads up to ``count`` events per run. A run without new events is left out.
        """
        keys = {self.keys.events(run_id): run_id for run_id in after}
        found = self.streams({key: after[run_id] for key, run_id in keys.items()}, block, count)
        return {keys[key]: entries for key, entries in found.items()}

    def streams(
        self, after: Mapping[str, str], block: int | None = None, count: int = 500
    ) -> dict[str, list[tuple[str, dict[str, str]]]]:
        """Return the new entries of streams by key, for each after an entry's id, in one read.

        Args:
            block: wait up to this many ms for an entry.
            count: the most entries of each stream.
        """
        places: dict[Any, Any] = dict(after)
        with self._answered():
            streams: Any = self.redis.xread(places, count=count, block=block)
        return {key: _flat(entries) for key, entries in _pairs(streams)}

    def events_and_oldest(
        self, run_id: str, after: str | None, count: int = 500
    ) -> tuple[list[tuple[str, dict[str, str]]], str | None]:
        """Return the events of a run after ``after``, and the id of its oldest event.

        Both are of the same moment. ``after`` is as for ``events``.
        """
        key = self.keys.events(run_id)
        while True:
            # No MULTI: a server that is full would refuse even to read in one.
            with self._answered(), self.redis.pipeline(transaction=False) as pipe:
                pipe.xread({key: "0"}, count=1)
                pipe.xread({key: after or "0"}, count=count)
                pipe.xread({key: "0"}, count=1)
                before, events, oldest = (
                    [entry for _, entries in _pairs(streams) for entry in _flat(entries)]
                    for streams in pipe.execute()
                )
            if before == oldest or not oldest:  # nothing was trimmed meanwhile, or all is deleted
                return events, oldest[0][0] if oldest else None

    def oldest_events(self, run_ids: Sequence[str]) -> dict[str, str]:
        """Return the id of each run's oldest event. A run without events is left out."""
        keys = {self.keys.events(run_id): run_id for run_id in run_ids}
        with self._answered():
            streams: Any = self.redis.xread(dict.fromkeys(keys, "0"), count=1)
        return {keys[key]: _flat(entries)[0][0] for key, entries in _pairs(streams)}

    def children(self, run_id: str, nonce: str, groups: Sequence[str] = ()) -> list[str]:
        """Return the ids of the children that a run has started, in the order of their start.

        If the run's oldest events are gone, so are the children that they tell of, except those of
        the groups that the run still has.

        Args:
            nonce: the run's.
            groups: the names of the run's groups.
        """
        started: list[tuple[str, int]] = []
        after, is_whole = None, True
        while True:
            entries = self.events(run_id, after)
            if after is None and entries:
                is_whole = entries[0][1]["type"] == FIRST
            for _, entry in entries:
                if entry["type"] == "started":
                    places = range(int(entry["from"]), int(entry["to"]))
                    started += [(entry["group"], place) for place in places]
            if not entries:
                break
            after = entries[-1][0]
        if not is_whole:
            left = set(started)
            counts = {group: self.counts_of_children(run_id, group) for group in groups}
            of_groups = [
                (group, place)
                for group in groups
                for place in range(counts[group].get("started", 0))
            ]
            started = [child for child in of_groups if child not in left] + started
        return [child_of(run_id, nonce, group, place)[0] for group, place in started]

    def newest_events(
        self, run_id: str, count: int, names: Sequence[str]
    ) -> tuple[list[tuple[str, dict[str, str]]], dict[str, str]]:
        """Return a run's newest ``count`` events, newest first, and some fields of its hash.

        Fields in ``names`` that the run does not have are left out.
        """
        with self._answered(), self.redis.pipeline(transaction=False) as pipe:
            pipe.xrevrange(self.keys.events(run_id), count=count)
            pipe.hmget(self.keys.run(run_id), names)
            entries, texts = pipe.execute()
        return entries, {
            name: text for name, text in zip(names, texts, strict=True) if text is not None
        }

    def latest_events(
        self, run_id: str, count: int, before: str | None = None
    ) -> list[tuple[str, dict[str, str]]]:
        """Return a run's last ``count`` events (before the event id ``before``), oldest first."""
        with self._answered():
            entries: Any = self.redis.xrevrange(
                self.keys.events(run_id), f"({before}" if before else "+", "-", count
            )
        return [(event, data) for event, data in reversed(entries)]

    def listed(
        self, index: str, limit: int, after: str | None = None, oldest_first: bool = False
    ) -> list[tuple[str, float]]:
        """Return one page of the run ids in an index with their times (ms), newest first.

        Args:
            after: a cursor ``score:id``; the listing begins just behind it.
            oldest_first: list in the opposite order.
        """
        return self.entries({self.keys.index(index): ALWAYS}, limit, after, oldest_first)

    def submitted(
        self, name: str, limit: int, after: str | None = None, oldest_first: bool = False
    ) -> list[tuple[str, float]]:
        """Return one page of a submitter's run ids with their times (ms), newest first.

        The arguments are as in ``listed``. Some of the runs may be deleted.
        """
        return self.entries({self.keys.submitted(name): ALWAYS}, limit, after, oldest_first)

    def forget_submitted(self, name: str, run_ids: Sequence[str]) -> None:
        """Remove deleted runs from their submitter's index.

        If this user of the state server may only read, nothing is removed.
        """
        with suppress(AccessDenied), self._answered():
            self.redis.zrem(self.keys.submitted(name), *run_ids)

    def entries(
        self,
        spans: Mapping[str, tuple[float, float]],
        limit: int,
        after: str | None = None,
        oldest_first: bool = False,
    ) -> list[tuple[str, float]]:
        """Return the next entries of sorted sets as one list, each a member and its score.

        The cursor is a position in the order of the list, so an entry that stays at its score is
        neither left out nor returned twice, whatever comes and goes between two pages. An entry
        that moves from one of these sets to another at the same score counts as staying.

        Args:
            spans: for each key the lowest and the highest score of the entries to list.
            limit: the most entries. Fewer are returned only at the end of the list.
            after: a cursor ``score:member``; the list begins just behind it.
            oldest_first: begin with the lowest score.
        """
        found: list[tuple[str, float]] = []
        while spans and len(found) < limit:
            count = min(limit - len(found), MANY)
            entries = self._range(spans, count, after, oldest_first)
            found += entries
            if len(entries) < count:
                break
            after = f"{entries[-1][1]}:{entries[-1][0]}"
        return found

    def _range(
        self,
        spans: Mapping[str, tuple[float, float]],
        count: int,
        after: str | None,
        oldest_first: bool,
    ) -> list[tuple[str, float]]:
        """Return entries as ``entries`` does, read in one exchange."""
        order = "oldest" if oldest_first else "newest"
        score, _, member = (after or "").partition(":")
        bounds = [str(bound) for span in spans.values() for bound in span]
        arguments: list[str | bytes | int] = [order, count, score, member, *bounds]
        with self._answered():
            flat = self._scripts["list_entries"](self._wire, list(spans), arguments)
        return [(flat[i], float(flat[i + 1])) for i in range(0, len(flat), 2)]

    def sizes(self, keys: Sequence[str]) -> list[int]:
        """Return the numbers of entries of sorted sets."""
        with self._answered(), self.redis.pipeline(transaction=False) as pipe:
            for key in keys:
                pipe.zcard(key)
            sizes: list[int] = pipe.execute()
        return sizes

    def records(self, run_ids: Sequence[str]) -> list[dict[str, str] | None]:
        """Return all fields of several runs' hashes, read in one exchange.

        Returns:
            The fields of each run. None for a run that does not exist, an empty dict if its key is
            not a hash.
        """
        with self._answered(), self.redis.pipeline(transaction=False) as pipe:
            for run_id in run_ids:
                pipe.hgetall(self.keys.run(run_id))
            replies = _hashes(pipe.execute(raise_on_error=False))
        return [reply if reply is MISTYPED else reply or None for reply in replies]

    def fields_by_run(self, wanted: Mapping[str, Sequence[str]]) -> list[dict[str, str]]:
        """Return the requested fields of each run, read in one exchange.

        Fields that a run does not have are left out. A run whose key is not a hash has none.
        """
        with self._answered(), self.redis.pipeline(transaction=False) as pipe:
            for run_id, names in wanted.items():
                pipe.hmget(self.keys.run(run_id), names)
            replies = _hashes(pipe.execute(raise_on_error=False))
        return [
            {}
            if reply is MISTYPED
            else {name: text for name, text in zip(names, reply, strict=True) if text is not None}
            for names, reply in zip(wanted.values(), replies, strict=True)
        ]

    def some_fields(self, run_ids: Sequence[str], names: Sequence[str]) -> list[dict[str, str]]:
        """Return the requested fields of several runs' hashes, read in one exchange.

        Fields that a run does not have are left out. A run whose key is not a hash has none.
        """
        with self._answered(), self.redis.pipeline(transaction=False) as pipe:
            for run_id in run_ids:
                pipe.hmget(self.keys.run(run_id), names)
            replies = _hashes(pipe.execute(raise_on_error=False) if run_ids else [])
        fields_by_run = [
            {} if reply is MISTYPED else dict(zip(names, reply, strict=True)) for reply in replies
        ]
        return [
            {name: text for name, text in fields.items() if text is not None}
            for fields in fields_by_run
        ]

    def many_fields(self, run_ids: Sequence[str], names: Sequence[str]) -> list[dict[str, str]]:
        """Return the requested fields of very many runs' hashes, as ``some_fields`` does.

        A script reads them (read_fields.lua), a thousand in each exchange. Its reply is one text:
        this process reads it in a thirtieth of the time that a thousand replies take.
        """
        script, found = self._scripts["read_fields"], []
        for begin in range(0, len(run_ids), MANY):
            keys = [self.keys.run(run_id) for run_id in run_ids[begin : begin + MANY]]
            with self._answered():
                found += json.loads(script(self._wire, keys, names))
        return [
            {}
            if texts is False
            else {name: text for name, text in zip(names, texts, strict=True) if text is not False}
            for texts in found
        ]

    def held_by(self, process: str) -> Iterator[tuple[str, int, int]]:
        """Yield run id, epoch and step of each round that a process (``HOST:PID``) has leased.

        Leases that ended more than ``LATE_MS`` ago are left out.
        """
        for run_id, fields in self._due_lately(("phase", "claim_id", "epoch", "step")):
            if fields.get("phase") == "leased" and fields.get("claim_id", "").startswith(
                f"{process}."
            ):
                yield run_id, int(fields["epoch"]), int(fields["step"])

    def passed(self) -> dict[str, tuple[str, ...]]:
        """Return the queued runs whose message has probably left its queue without a claim.

        The message's number is not above that of the newest claimed message, or the queue is empty.
        Within milliseconds a worker claims such a round, or its message is lost. A message that was
        put back at the queue's head is included.

        Returns:
            The epoch, step and message number of each run, by id.
        """
        cursors = {queue: self._cursor(queue) for queue in self.keys.queue_names}
        passed: dict[str, tuple[str, ...]] = {}
        for run_id, fields in self._due_lately(
            ("phase", "queue", "epoch", "step", "number", "handed_to")
        ):
            cursor = cursors.get(fields.get("queue", ""))
            number = fields.get("number", "")
            is_passed = cursor is not None and number.isdecimal() and int(number) <= cursor
            if is_passed and fields.get("phase") == "queued" and "handed_to" not in fields:
                passed[run_id] = fields.get("epoch", ""), fields.get("step", ""), number
        return passed

    def _cursor(self, queue: str) -> float:
        """Return the number of a queue's newest claimed message; infinity if the queue is empty."""
        with self._answered():
            if not self.redis.llen(queue):
                return math.inf
            cursor = cast("str | None", self.redis.hget(self.keys.queues, f"{queue}:cursor")) or "0"
            return int(cursor) if cursor.isdecimal() else 0

    def _due_lately(self, names: Sequence[str]) -> Iterator[tuple[str, dict[str, str]]]:
        """Yield the id and the requested fields of each run in the due set.

        Runs that were due more than ``LATE_MS`` ago are left out.
        """
        span = {self.keys.due: (self.time() - LATE_MS, math.inf)}
        after: str | None = None
        while True:
            entries = self.entries(span, MANY, after, oldest_first=True)
            ids = [run_id for run_id, _ in entries]
            yield from zip(ids, self.some_fields(ids, names), strict=True)
            if len(entries) < MANY:
                return
            after = f"{entries[-1][1]}:{ids[-1]}"

    def counts(self) -> dict[str, int]:
        """Return the number of runs in each index and the due set, and of messages per queue."""
        indexes = (*INDEXES, *CHILD_INDEXES)
        names = [self.keys.index(name) for name in indexes]
        with self._answered(), self.redis.pipeline(transaction=False) as pipe:
            for key in (*names, self.keys.due):
                pipe.zcard(key)
            for key in self.keys.queue_names:
                pipe.llen(key)
            counts = pipe.execute()
        return dict(zip((*indexes, "due", *self.keys.queue_names), counts, strict=True))

    def interrupted_count(self) -> int:
        """Return how many runs wait for a person, child runs included."""
        with self._answered(), self.redis.pipeline(transaction=False) as pipe:
            for name in ("interrupted", "interrupted:children"):
                pipe.zcard(self.keys.index(name))
            return sum(pipe.execute())

    def ended_counts(self, seconds: int, buckets: int) -> dict[str, list[int]]:
        """Return how many runs completed and errored in equal parts of the last ``seconds``.

        The parts come oldest first. Child runs count too. The cost does not depend on the number of
        runs: each part is two counts in a sorted set.
        """
        now = self.time()
        edges = [now - seconds * 1000 * (buckets - number) // buckets for number in range(buckets)]
        edges.append(now)
        pairs = list(pairwise(edges))
        names = ("completed", "errored")
        with self._answered(), self.redis.pipeline(transaction=False) as pipe:
            for name in names:
                for begin, end in pairs:
                    pipe.zcount(self.keys.index(name), f"({begin}", end)
                    pipe.zcount(self.keys.index(f"{name}:children"), f"({begin}", end)
            counts: list[int] = pipe.execute()
        sums = [own + below for own, below in zip(counts[::2], counts[1::2], strict=True)]
        return {
            name: sums[number * buckets : (number + 1) * buckets]
            for number, name in enumerate(names)
        }

    def announce(self, worker: str, info: Mapping[str, Any], at: int, forget_before: int) -> None:
        """Record a worker's heartbeat and its announcement, which says what the worker plays.

        Workers without an announcement since ``forget_before`` (ms) are removed.
        """
        with self._answered(), self.redis.pipeline() as pipe:
            pipe.zadd(self.keys.workers, {worker: at})
            pipe.hset(self.keys.announcements, worker, json.dumps(info))
            pipe.zrangebyscore(self.keys.workers, "-inf", forget_before)
            gone = cast(list[str], pipe.execute()[-1])
            if gone:
                pipe.zrem(self.keys.workers, *gone)
                pipe.hdel(self.keys.announcements, *gone)
                pipe.execute()

    def called(self, run_id: str, epoch: int) -> None:
        """Record that a run's ``on_end`` callback was called, or need not be called.

        ``epoch`` is the epoch in which the run ended.
        """
        with self._answered():
            self.redis.zrem(self.keys.endings, f"{run_id} {epoch}")

    def stops(self) -> int:
        """Return how many runs were ever stopped. It grows with each stop."""
        with self._answered():
            counters = cast("dict[str, str]", self.redis.hgetall(self.keys.queues))
        return sum(
            int(text)
            for name, text in counters.items()
            if name.startswith("stops:") and text.isdecimal()
        )

    def withdraw(self, worker: str) -> None:
        """Remove the announcement of a worker that shuts down or has died."""
        with self._answered(), self.redis.pipeline() as pipe:
            pipe.zrem(self.keys.workers, worker)
            pipe.hdel(self.keys.announcements, worker)
            pipe.execute()

    def workers(self) -> list[tuple[str, float, dict[str, Any]]]:
        """Return name, last heartbeat (ms) and announcement of each worker."""
        with self._answered(), self.redis.pipeline(transaction=False) as pipe:
            pipe.zrange(self.keys.workers, 0, -1, withscores=True)
            pipe.hgetall(self.keys.announcements)
            heartbeats, infos = pipe.execute()
        return [
            (name, float(beat), json.loads(infos[name]))
            for name, beat in heartbeats
            if name in infos
        ]

    def dead_letters(self, limit: int = 20) -> list[dict[str, Any]]:
        """Return the newest dead letters: messages that workers refused as invalid."""
        with self._answered():
            return [
                json.loads(text)
                for text in cast(list[str], self.redis.lrange(self.keys.dead_letters, 0, limit - 1))
            ]


def _hashes(replies: list[Any]) -> list[Any]:
    """Return the replies to reads of hashes, with ``MISTYPED`` for a key that is not a hash.

    Raises:
        redis.ResponseError: The server refused a read for another reason, such as an ACL.
    """
    for reply in replies:
        if isinstance(reply, Exception) and not str(reply).startswith("WRONGTYPE"):
            raise reply
    return [MISTYPED if isinstance(reply, Exception) else reply for reply in replies]


def _pairs(streams: Any) -> Iterable[tuple[str, list[Any]]]:
    """Return the reply to XREAD as pairs of a key and its entries."""
    return streams.items() if isinstance(streams, dict) else streams or ()


def _flat(entries: list[Any]) -> list[tuple[str, dict[str, str]]]:
    """Return the entries of a Redis stream as one flat list.

    With RESP3 redis-py returns them as lists in a list.
    """
    return [
        (event, data)
        for batch in entries
        for event, data in (batch if isinstance(batch, list) else [batch])
    ]
