"""StateReader: the reading part of a LangGraph checkpointer for a run's stored state."""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple

from perdure.flows.adapters.graph_checkpoints import Namespace, StoredChannel
from perdure.flows.adapters.graph_values import StateSerializer


class StateReader(BaseCheckpointSaver[int]):
    """A checkpointer for the graph of one run.

    Args:
        run_id: the id of the run, which is the only thread.
        serializer: encodes and decodes the values of the state.
        where: beginning of the errors about values.
    """

    def __init__(self, run_id: str, serializer: StateSerializer, where: str) -> None:
        super().__init__()
        self._run_id, self._serializer, self._where = run_id, serializer, where

    def with_allowlist(self, extra_allowlist: Collection[tuple[str, ...]]) -> StateReader:
        """Return this checkpointer: the types of the state are known already."""
        return self

    def value(self, text: str, channel: str) -> Any:
        """Return the value that a text encodes, as stored in a channel or written by a task."""
        return self._serializer.decode(text, self._what(channel))

    def _value(self, channel: str, stored: StoredChannel) -> Any:
        values = [self.value(text, channel) for text in stored.texts or ()]
        return values if stored.is_list else values[0]

    def _channel(
        self, channel: str, version: Any, values: Mapping[str, Any], before: StoredChannel | None
    ) -> StoredChannel:
        """Return a channel of a checkpoint in its stored form.

        Args:
            values: the values of all channels by name. Without ``channel``, the channel is empty.
            before: the channel in the checkpoint before. The common beginning of a list is kept.
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
        """Return a checkpoint as the library reads it.

        Args:
            name: the checkpoint's namespace.
            parent: id of the checkpoint before it.
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
