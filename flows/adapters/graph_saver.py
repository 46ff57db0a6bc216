"""RunSaver: the LangGraph checkpointer of a graph during a round."""

from __future__ import annotations

import asyncio
import copy
import threading
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
)

from perdure.flows.adapters.graph_checkpoints import (
    ERROR,
    HANDLED,
    INDEX,
    INTERRUPTED,
    RESUMED,
    TOLD,
    Answered,
    Namespace,
    RoundTasks,
    TaskWrites,
    is_under_way,
)
from perdure.flows.adapters.graph_history import RECORD as HISTORY_RECORD
from perdure.flows.adapters.graph_history import RECORDS, HistoryRecord
from perdure.flows.adapters.graph_questions import QuestionReader
from perdure.flows.adapters.graph_records import RoundRecords
from perdure.flows.adapters.graph_values import StateSerializer, is_plain
from perdure.flows.core.errors import FatalError
from perdure.flows.core.json_values import storable
from perdure.flows.rounds.context import RoundContext

#: The answered questions of a task.
Answers = list[Answered]


class RunSaver(QuestionReader):
    """The checkpointer of a run's graphs during a round. It has their last checkpoints.

    Writes of tasks, and the checkpoints of graphs that nodes invoke, are recorded at once
    (``RoundRecords``). So a later attempt of the round does not run the same task again.

    Args:
        tasks: the tasks of the round.
        keeps_history: whether the run keeps each checkpoint, so that it can be read later.
    """

    def __init__(
        self,
        context: RoundContext,
        serializer: StateSerializer,
        tasks: RoundTasks,
        keeps_history: bool,
    ) -> None:
        super().__init__(context.run_id, serializer, f"run {context.run_id}, step {context.step}")
        self._context, self._tasks = context, tasks
        self._record = HistoryRecord(context.committed.get(INDEX)) if keeps_history else None
        self._artifacts: dict[str, str] = {}
        #: Whether a task has taken this round's answer.
        self.is_answer_used = False
        self._asked_ids: set[str] = set()
        self._lock = threading.RLock()
        #: The writes of tasks in this step, in order, with their namespaces.
        self.written: list[tuple[str, TaskWrites]] = []
        self._records = RoundRecords(context, tasks)
        #: Namespaces and ids of the checkpoints that a later attempt of this round can read.
        self._places: set[tuple[str, str]] = set()

    # The beginning and the end of a round.

    def load(self, kept: Any) -> None:
        """Read the run's checkpoints, and earlier attempts' records of this step.

        Args:
            kept: the namespaces that the round before kept in this process (``context.kept``).
                None: the namespaces are read from the run.
        """
        index = self._context.committed.get(INDEX)
        if index is None:
            return
        if isinstance(kept, dict):
            self.namespaces = kept
        else:
            for name, stored in index["namespaces"].items():
                self.namespaces[name] = Namespace.of(stored, self._context.artifact)
        for name, space in self._records.read_nested(self.namespaces):
            self.namespaces[name] = space
            self._pass(name, space)
        self._places = {(name, space.checkpoint["id"]) for name, space in self.namespaces.items()}
        for id_, told in self._records.read_tasks():
            if (told["namespace"], told["checkpoint"]) in self._places:
                task = TaskWrites.of(told)
                self.namespaces[told["namespace"]].tasks[id_] = task
                self.written.append((told["namespace"], task))

    def begin_with(self, namespaces: dict[str, Namespace]) -> None:
        """Begin with the final state of an earlier run.

        Raises:
            UnstorableValue: the state has a value of a type that this graph does not accept.
        """
        for name, space in namespaces.items():
            self._tuple(name, space)  # reads each value
        self.namespaces = namespaces

    def commit(self, is_partial: bool = False) -> tuple[dict[str, Any], dict[str, str]]:
        """Return the checkpoint index, and the artifacts, for the commit of this round.

        Args:
            is_partial: whether tasks are left for the next round of the same superstep.
        """
        self._forget_ended()
        self._forget_answered()
        artifacts = self._artifacts
        namespaces = {
            name: space.store(name, self._context.step, artifacts)
            for name, space in self.namespaces.items()
        }
        index = {"namespaces": namespaces, **({"is_partial": True} if is_partial else {})}
        if self._record is not None:
            for name, entry in namespaces.items():
                self._record.add(name, entry)
            self._record.keep_only(namespaces)
            index[HISTORY_RECORD] = record = f"{RECORDS}{self._context.step}"
            artifacts[record] = self._record.text(is_partial)
        return storable(index, "the graph's checkpoint"), artifacts

    def _pass(self, name: str, space: Namespace) -> None:
        """Add a checkpoint to the history, without its tasks. Without a history, do nothing."""
        if self._record is not None:
            entry = space.store(name, self._context.step, self._artifacts, with_tasks=False)
            self._record.add(name, entry, has_tasks=False)

    def _forget_ended(self) -> None:
        """Remove the namespaces of ended subgraphs. They are added to the history before."""
        for name, space in list(self.namespaces.items()):
            if ":" in name and not is_under_way(space, self.namespaces):
                # One without a task's id lives as long as the run.
                self._pass(name, space)
                self.namespaces.pop(name, None)

    # Questions to people.

    def _forget_answered(self) -> None:
        """Remove the answered question from its tasks. It stays if its task has asked again."""
        for space in self.namespaces.values():
            for name, task in space.tasks.items():
                asked = self.questions(task)
                left = [each for each in asked if each.id != self.answered]
                if len(left) < len(asked) and name not in self._asked_ids:
                    text = self._serializer.encode(left, "a question")
                    others = [each for each in task.writes if each[0] != INTERRUPTED]
                    task.writes = [*others, (INTERRUPTED, text)] if left else others
                    task.artifact = ""

    # The library's interface.

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the last checkpoint of a namespace.

        Returns:
            None if there is none, or if the config names an older checkpoint.
        """
        name = config["configurable"].get("checkpoint_ns", "")
        with self._lock:
            space = self.namespaces.get(name)
            wanted = config["configurable"].get("checkpoint_id")
            if space is None or wanted not in (None, space.checkpoint["id"]):
                return None
            return self._tuple(name, space)

    def list(self, config: RunnableConfig | None, **options: Any) -> Iterator[CheckpointTuple]:
        """Return an iterator over a namespace's last checkpoint.

        A run does not keep older checkpoints here. All ``options`` are ignored.
        """
        found = None if config is None else self.get_tuple(config)
        return iter(() if found is None else (found,))

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Replace the checkpoint of a namespace. If it is of a nested graph, record it at once."""
        place = self._put(config, checkpoint, metadata, new_versions)
        self._record_nested(place["configurable"]["checkpoint_ns"])
        return place

    def _put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        name = config["configurable"].get("checkpoint_ns", "")
        own: dict[str, Any] = {**checkpoint}
        values = own.pop("channel_values")
        own = storable(_listed(own), "the graph's checkpoint")
        with self._lock:
            before = self.namespaces.get(name)
            if before is not None:
                self._pass(name, before)
            channels = {} if before is None else dict(before.channels)
            for channel, version in new_versions.items():
                channels[channel] = self._channel(channel, version, values, channels.get(channel))
            told = {key: value for key, value in metadata.items() if is_plain(value)}
            self.namespaces[name] = Namespace(own, copy.deepcopy(told), channels)
        return self.place(name, own["id"])

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Add a task's writes to its checkpoint. If a later attempt can use them, record them."""
        self._tell(task_id, self._keep(config, writes, task_id, task_path))

    def _keep(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str,
    ) -> dict[str, Any] | None:
        """Add a task's writes to its checkpoint. Return their record.

        The error of a task is not added: the next attempt runs the task again.

        Returns:
            The record to store before the commit. None if it would be useless: the commit follows
                at once because no other task is running, or a later attempt could not use the
                record.
        """
        self._tasks.written.add(task_id)
        channels = {channel for channel, _ in writes}
        if ERROR in channels and HANDLED not in channels:
            return None
        self._tasks.ended.add(task_id)
        if INTERRUPTED in channels:
            self._asked_ids.add(task_id)
        name = config["configurable"].get("checkpoint_ns", "")
        checkpoint = config["configurable"]["checkpoint_id"]
        texts = [
            (channel, self._serializer.encode(value, self._what(channel)))
            for channel, value in writes
        ]
        with self._lock:
            space = self.namespaces.get(name)
            if space is None or space.checkpoint["id"] != checkpoint:
                return None
            before = space.tasks.get(task_id)
            if before is not None and before.writes == texts:
                return None
            kept = [] if before is None else before.writes
            kept = [pair for pair in kept if pair[0] in TOLD and pair[0] not in channels]
            task = TaskWrites(
                self._tasks.names.get(task_id, ""),
                task_path,
                [*kept, *texts],
                answers=self._answers(before, writes),
                asks_itself=INTERRUPTED in channels and task_id in self._tasks.asking,
            )
            space.tasks[task_id] = task
            self.written.append((name, task))
            if before is not None and self._has_answer(before) and not self.is_answer_used:
                return None  # It dropped its answer, so the round fails.
        has_others = not self._tasks.begun <= self._tasks.ended
        if self._records.is_nested(name):
            is_recorded = self._records.has_use(space, channels)
        else:
            is_recorded = has_others and (name, checkpoint) in self._places
        if not is_recorded or HANDLED in channels:
            return None
        return {**task.data(), "namespace": name, "checkpoint": checkpoint}

    def _answers(self, before: TaskWrites | None, writes: Sequence[tuple[str, Any]]) -> Answers:
        """Return the answered questions of a task.

        The question that this round answers is among them after the task has taken the answer. The
        number of answers in ``writes`` shows this, because the library writes all answers of a task
        whenever the task takes one.

        Args:
            before: the task before these writes, or None.
        """
        if before is None:
            return []
        had, has = (
            max((len(value) for channel, value in each if channel == RESUMED), default=0)
            for each in (self._resumed(before), writes)
        )
        if has <= had or not self._has_answer(before):
            return before.answers
        self.take_answer()
        asked = [each for each in self.questions(before) if each.id == self.answered]
        # An older worker has not noted the questions of the answers before.
        unknown = [Answered("-", "")] * (had - len(before.answers))
        return [*unknown, *before.answers, Answered.to(asked[0].value)]

    def take_answer(self) -> None:
        """Record that a task has taken this round's answer (``is_answer_used``)."""
        self.is_answer_used = True

    def _resumed(self, task: TaskWrites) -> Sequence[tuple[str, Any]]:
        return [
            (channel, self._serializer.decode(text, "an answer"))
            for channel, text in task.writes
            if channel == RESUMED
        ]

    def _tell(self, task_id: str, told: dict[str, Any] | None) -> None:
        """Record a task's writes. No later attempt then runs the task.

        Args:
            told: the result of ``_keep``. None: nothing is recorded.
        """
        if told is None:
            return
        place = (told["namespace"], told["checkpoint"])
        if place not in self._places:
            self._record_nested(place[0], is_needed=True)
        if place in self._places:
            self._records.add_task(task_id, told)

    def _record_nested(self, name: str, is_needed: bool = False) -> None:
        """Record the checkpoint of a namespace if its graph is nested: invoked by a node's code.

        Args:
            is_needed: whether to record the checkpoint even if no superstep has ended before it.
        """
        with self._lock:
            space = self.namespaces[name]
        has_done = is_needed or space.metadata.get("step", 1) > 0
        if has_done and self._records.is_nested(name) and self._records.add_nested(name, space):
            self._places.add((name, space.checkpoint["id"]))

    def delete_thread(self, thread_id: str) -> None:
        """Raise FatalError, because checkpoints are deleted only with their run."""
        raise FatalError(f"run {self._context.run_id}: its checkpoints are deleted with the run")

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the result of ``get_tuple``."""
        return self.get_tuple(config)

    async def alist(
        self, config: RunnableConfig | None, **options: Any
    ) -> AsyncIterator[CheckpointTuple]:
        """Yield the results of ``list``."""
        for found in self.list(config):
            yield found

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Do the same as ``put``. It does not block the event loop."""
        place = self._put(config, checkpoint, metadata, new_versions)
        name = place["configurable"]["checkpoint_ns"]
        if self._records.is_nested(name):
            await asyncio.to_thread(self._record_nested, name)
        return place

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Do the same as ``put_writes``. It does not block the event loop."""
        told = self._keep(config, writes, task_id, task_path)
        if told is not None:
            await asyncio.to_thread(self._tell, task_id, told)


def _listed(value: Any) -> Any:
    """Return a value with sorted lists in place of sets, at any depth of its mappings."""
    if isinstance(value, Mapping):
        return {key: _listed(each) for key, each in value.items()}
    return sorted(value) if isinstance(value, set | frozenset) else value
