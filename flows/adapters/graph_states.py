"""StateReader: the base of a run's LangGraph checkpointers. It reads stored states."""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple

from perdure.flows.adapters.graph_checkpoints import Namespace, StoredChannel
from perdure.flows.adapters.graph_values import StateSerializer


class StateReader(BaseCheckpointSaver[int]):
    """The base of checkpointers for one run's graph.

    Args:
        run_id: the id of the run. It is the only ``thread_id`` of the checkpointer.
        serializer: encodes and decodes the values of the state.
        where: the beginning of error texts about values.
    """

    def __init__(self, run_id: str, serializer: StateSerializer, where: str) -> None:
        super().__init__()
        self._run_id, self._serializer, self._where = run_id, serializer, where

    def with_allowlist(self, extra_allowlist: Collection[tuple[str, ...]]) -> StateReader:
        """Return this checkpointer unchanged. ``extra_allowlist`` is ignored.

        The serializer knows the types of the state already.
        """
        return self

    def value(self, text: str, channel: str) -> Any:
        """Return the value that ``text`` encodes.

        Args:
            text: a value of a channel, or a value that a task has written.
            channel: the name of the channel, for error texts.
        """
        return self._serializer.decode(text, self._what(channel))

    def _value(self, channel: str, stored: StoredChannel) -> Any:
        values = [self.value(text, channel) for text in stored.texts or ()]
        return values if stored.is_list else values[0]

    def _channel(
        self, channel: str, version: Any, values: Mapping[str, Any], before: StoredChannel | None
    ) -> StoredChannel:
        """Return a checkpoint's channel in stored form.

        Args:
            values: the values of all channels by name. If it lacks ``channel``, the channel is
                empty.
            before: the channel in the checkpoint before, or None. If both values are lists, the
                stored parts of their common beginning are used again.
        """
        if channel not in values:
            return StoredChannel(version, None)
        value, what = values[channel], self._what(channel)
        if type(value) is not list:
            return StoredChannel(version, [self._serializer.encode(value, what)])
        texts = [self._serializer.encode(item, what) for item in value]
        return StoredChannel(version, texts, True, [] if before is None else before.parts_of(texts))

    def _what(self, channel: str) -> str:
        return f"{self._where}: the channel {channel!r} of the graph"

    def place(self, name: str, checkpoint: str) -> RunnableConfig:
        """Return the config for a checkpoint of a namespace."""
        return {
            "configurable": {
                "thread_id": self._run_id,
                "checkpoint_ns": name,
                "checkpoint_id": checkpoint,
            }
        }

    def _tuple(self, name: str, space: Namespace, parent: str | None = None) -> CheckpointTuple:
        """Return a checkpoint in the library's form. Its values are decoded.

        Args:
            name: the checkpoint's namespace.
            parent: the id of the checkpoint before this one. None: the result names no parent.
        """
        checkpoint = copy.deepcopy(space.checkpoint)
        values = {
            channel: self._value(channel, stored)
            for channel, stored in space.channels.items()
            if stored.texts is not None
        }
        writes = [
            (task, channel, self.value(text, channel))
            for task, written in sorted(space.tasks.items(), key=lambda pair: pair[1].path)
            for channel, text in written.writes
        ]
        return CheckpointTuple(
            self.place(name, checkpoint["id"]),
            {**checkpoint, "channel_values": values},  # type: ignore[typeddict-item]
            copy.deepcopy(space.metadata),  # type: ignore[arg-type]
            None if parent is None else self.place(name, parent),
            writes,
        )
