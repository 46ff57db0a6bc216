"""The records of a graph's round before its commit. Later attempts read them.

The records hold the writes of tasks, and the checkpoints of nested graphs. A nested graph is one
invoked by the code of a node. The commit of the round deletes the records.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from perdure.flows.adapters.graph_checkpoints import (
    TOLD,
    Namespace,
    RoundTasks,
    StoredChannel,
    common,
)
from perdure.flows.core.budgets import sum_of
from perdure.flows.core.errors import UnstorableValue
from perdure.flows.core.json_values import canonical
from perdure.flows.core.round_journal import MOST_RESULTS, with_spent
from perdure.flows.rounds.context import RoundContext

#: Prefixes of the names of records: of a task, and of a nested graph's checkpoint. The id follows.
TASK, NESTED = "graph.", "nested_graph."
#: Places left in a step's journal for records outside the graph.
SPARE = 4
#: Maximum characters of all nested checkpoints of a step. Each claim of the step reads them.
MOST_NESTED = 512 * 1024
#: Prefixes of the channels that choose the next tasks. The last is a list of sent tasks.
TRIGGERS = ("branch:", "join:", "__pregel_tasks")
#: The channel with the result of an ``@task``.
RETURNED = "__return__"


class RoundRecords:
    """The records of a round. Several threads may use the object at once."""

    def __init__(self, context: RoundContext, tasks: RoundTasks) -> None:
        self._context, self._tasks = context, tasks
        self._lock, self._nested_lock = threading.Lock(), threading.Lock()
        #: The last recorded checkpoint of each namespace, or the committed one.
        self._bases: dict[str, Namespace] = {}
        self._size = 0
        self._claimed = 0
        #: The spending of this attempt that its records contain.
        self._spent: dict[str, float] = {}

    def read_tasks(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the recorded tasks of earlier attempts: each id, with its record."""
        for name in list(self._context.journal.recorded):
            if name.startswith(TASK):
                yield name.removeprefix(TASK), self._context.once(name, dict)

    def read_nested(self, committed: Mapping[str, Namespace]) -> Iterator[tuple[str, Namespace]]:
        """Yield the recorded checkpoints of nested graphs.

        Earlier attempts recorded them. Each checkpoint comes after its namespace. A record has the
        difference of a checkpoint from the checkpoint before. If two workers recorded at the same
        time, there are two sequences of records. Only the sequence with the newest checkpoint
        counts. Its checkpoints are yielded from old to new.

        Args:
            committed: the checkpoints of the last commit, by namespace.
        """
        self._bases = dict(committed)
        told: dict[str, dict[str, Any]] = {}
        for name, text in self._context.journal.recorded.items():
            if name.startswith(NESTED):
                self._size += len(text)
                told[name.removeprefix(NESTED)] = json.loads(text)
        for name in sorted({each["namespace"] for each in told.values()}):
            first = self._bases[name].checkpoint["id"] if name in self._bases else ""
            newest = max(id_ for id_, each in told.items() if each["namespace"] == name)
            sequence = [newest]
            while (before := told[sequence[-1]]["after"]) in told:
                sequence.append(before)
            if before != first:
                continue  # It belongs to a checkpoint that this attempt does not have.
            for each in reversed(sequence):
                self._bases[name] = _made(told[each], self._bases.get(name))
                yield name, self._bases[name]

    def is_nested(self, name: str) -> bool:
        """Return whether a namespace is that of a nested graph, invoked by a node's code."""
        if not name:
            return False
        nodes = {self._tasks.names.get(task) for task in self._tasks.begun}
        return any(
            part.rpartition(":")[2] in self._tasks.begun if ":" in part else part in nodes
            for part in name.split("|")
        )

    def has_use(self, space: Namespace, channels: Collection[str]) -> bool:
        """Return whether to record a nested task's writes.

        Writes to a channel in ``TOLD``, such as an error, a question or an answer, are never
        recorded. Apart from these, the result of an ``@task`` is always recorded. Other writes are
        recorded unless the task is the only one of its superstep: the next checkpoint then follows
        at once.

        Args:
            space: the nested graph's checkpoint before the task's superstep.
            channels: the channels that the task has written.
        """
        triggers = [
            stored
            for channel, stored in space.channels.items()
            if channel.startswith(TRIGGERS) and stored.texts is not None
        ]
        tasks = sum(len(stored.texts or ()) if stored.is_list else 1 for stored in triggers)
        return TOLD.isdisjoint(channels) and (tasks != 1 or RETURNED in channels)

    def add_task(self, task: str, told: Mapping[str, Any]) -> None:
        """Record a task's writes. Without room in the step's journal, record nothing.

        Raises:
            UnstorableValue: the record is too long. But a too long record of a nested graph is left
                out without an error.
        """
        self._record(f"{TASK}{task}", told, must_fit=not self.is_nested(told["namespace"]))

    def add_nested(self, name: str, space: Namespace) -> bool:
        """Record a nested graph's checkpoint. Return whether it is recorded.

        It is not recorded if it is too long, or would leave no room for the tasks of the round. A
        later attempt then continues the nested graph from the last recorded checkpoint.
        """
        own = f"{NESTED}{space.checkpoint['id']}"
        left = len(self._tasks.begun - self._tasks.ended)
        with self._nested_lock:
            if own in self._context.journal.recorded:
                return True
            told = _difference(name, space, self._bases.get(name))
            size = len(canonical(told))
            if self._size + size > MOST_NESTED or not self._record(own, told, left, False):
                return False
            self._size += size
            self._bases[name] = space
        return True

    def _record(
        self, name: str, told: Mapping[str, Any], left: int = 0, must_fit: bool = True
    ) -> bool:
        """Record a value in the step's journal.

        Args:
            left: the number of further records for which room must be left.
            must_fit: whether to raise UnstorableValue if the value is too long.

        Returns:
            Whether the value is recorded. Without a record, a later attempt does the work again.
        """
        with self._lock:
            taken = len(self._context.journal.recorded) + self._claimed
            if taken >= MOST_RESULTS - SPARE - left:
                return False
            self._claimed += 1
            spent = self._spent_since()
        try:
            self._context.once(name, lambda: with_spent(told, self._context.attempt, spent))
        except UnstorableValue:
            with self._lock:
                self._spent = sum_of([self._spent, {key: -spent[key] for key in spent}])
            if must_fit:
                raise
            return False
        finally:
            with self._lock:
                self._claimed -= 1
        return True

    def _spent_since(self) -> dict[str, float]:
        """Return the spending since the attempt's last record. The next record contains it."""
        now = dict(self._context.spent)
        since = {name: now[name] - self._spent.get(name, 0) for name in now}
        self._spent = now
        return {name: amount for name, amount in since.items() if amount}


def _difference(name: str, space: Namespace, before: Namespace | None) -> dict[str, Any]:
    """Return the record of a checkpoint.

    It has the channels that differ from ``before``.

    Args:
        before: the checkpoint before. None: the record has all channels.
    """
    channels: dict[str, Any] = {}
    for channel, stored in space.channels.items():
        old = None if before is None else before.channels.get(channel)
        if old is not None and old.version == stored.version:
            continue
        same = 0
        if stored.is_list and old is not None and old.is_list:
            same = common(old.texts or (), stored.texts or ())
        texts = None if stored.texts is None else stored.texts[same:]
        channels[channel] = [stored.version, stored.is_list, same, texts]
    return {
        "namespace": name,
        "after": "" if before is None else before.checkpoint["id"],
        "checkpoint": space.checkpoint,
        "metadata": space.metadata,
        "channels": channels,
    }


def _made(told: Mapping[str, Any], before: Namespace | None) -> Namespace:
    """Return the checkpoint that a record describes. It reverses ``_difference``.

    Args:
        before: the checkpoint before. None: the record has all channels.
    """
    channels = {} if before is None else dict(before.channels)
    for channel, (version, is_list, same, texts) in told["channels"].items():
        old = channels.get(channel)
        if old is None or texts is None:
            channels[channel] = StoredChannel(version, texts, is_list)
            continue
        whole = [*(old.texts or ())[:same], *texts]
        parts = old.parts_of(whole) if is_list else []
        channels[channel] = StoredChannel(version, whole, is_list, parts)
    return Namespace(dict(told["checkpoint"]), dict(told["metadata"]), channels)
