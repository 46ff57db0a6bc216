"""The input of a fork: the state of another run, with changes."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from perdure.flows.adapters.graph_checkpoints import Namespace, StoredChannel, TaskWrites
from perdure.flows.core.errors import InvalidInput
from perdure.flows.core.json_values import canonical

#: The input of a run that continues the state of another run.
FORK = "_fork"
#: Bytes of a state, not compressed. The inputs of a run take 256 KiB, and text shrinks to a fifth.
MOST_BYTES = 64 * 1024 * 1024


class ForkInput(BaseModel):
    """The input of a fork: a state for the new run.

    Attributes:
        run, namespace, checkpoint, step: the run, graph, checkpoint and superstep of the state.
        is_partial: whether tasks of the state's superstep have not begun.
        state: the checkpoints, compressed (``packed``).
        values: the values to write to the state, encoded. None: nothing is written.
        as_node: the node that counts as the writer of ``values``.
    """

    model_config = ConfigDict(extra="forbid")

    run: str
    namespace: str = ""
    checkpoint: str
    step: int | None = None
    is_partial: bool = False
    state: str
    values: str | None = None
    as_node: str | None = None

    def namespaces(self) -> dict[str, Namespace]:
        """Return the checkpoints in ``state``. They have no artifacts in the new run yet.

        Raises:
            InvalidInput: the state was not made by ``packed``.
        """
        return unpacked(self.state, self.run)


def fork_input(data: Any) -> ForkInput:
    """Validate the input of a fork, and return it.

    Raises:
        InvalidInput: ``data`` was not made by ``fork``.
    """
    try:
        return ForkInput.model_validate(data)
    except ValidationError as error:
        faults = "; ".join(f"{each['loc']}: {each['msg']}" for each in error.errors())
        raise InvalidInput(
            f"the input {FORK!r} is not valid: {faults}. It is made by fork(...)"
        ) from error


def packed(spaces: Mapping[str, Namespace]) -> str:
    """Return checkpoints and their values as compressed text."""
    data = {
        name: {
            "checkpoint": space.checkpoint,
            "metadata": space.metadata,
            "channels": {
                channel: [stored.version, stored.is_list, stored.texts]
                for channel, stored in space.channels.items()
            },
            "tasks": {task: written.data() for task, written in space.tasks.items()},
        }
        for name, space in spaces.items()
    }
    return base64.b64encode(zlib.compress(canonical(data).encode(), 9)).decode()


def unpacked(state: str, run_id: str) -> dict[str, Namespace]:
    """Return the checkpoints in a text of ``packed``.

    Args:
        run_id: the run that the state is from, for error texts.

    Raises:
        InvalidInput: the state was not made by ``packed``.
    """
    try:
        unpacker = zlib.decompressobj()
        text = unpacker.decompress(base64.b64decode(state), MOST_BYTES)
        if unpacker.unconsumed_tail:
            raise ValueError(f"it takes more than {MOST_BYTES} bytes")
        return {name: _namespace(data) for name, data in json.loads(text).items()}
    except (ValueError, KeyError, TypeError, AttributeError, zlib.error) as error:
        raise InvalidInput(
            f"the state of run {run_id} cannot be read: {error}. Expected the state that a run has "
            "stored, or the input that fork(...) makes"
        ) from error


def _namespace(data: Mapping[str, Any]) -> Namespace:
    channels = {
        name: StoredChannel(version, texts, is_list)
        for name, (version, is_list, texts) in data["channels"].items()
    }
    tasks = {task: TaskWrites.of(written) for task, written in data["tasks"].items()}
    return Namespace(dict(data["checkpoint"]), dict(data["metadata"]), channels, tasks)
