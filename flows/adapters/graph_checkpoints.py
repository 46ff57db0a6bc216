"""Checkpoints of a LangGraph graph as they are stored: values and artifacts of a round's commit.

The commit writes each changed channel as an artifact. Of a list, it writes only the items from the
first changed item on.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from perdure.flows.core.json_values import canonical
from perdure.flows.core.summaries import safe_text
from perdure.flows.workflows.arguments import INCOMPARABLE, digest_of

#: Name of the run's value with the index: the last checkpoint of each namespace, and for each of
#: its channels the value or the artifacts that have it.
INDEX = "_graph"
#: Number of parts of a list from which on adjacent small parts are written again as one part, so
#: that fewer artifacts have to be read.
MOST_PARTS = 100
#: Minimum number of parts that are joined, and maximum characters of them together. A round may add
#: 256 KiB.
FEWEST, JOINED = 8, 32_768
#: Maximum characters of a value stored in the index. Most values that choose the next node are
#: shorter.
SHORT = 64
#: Channels of writes that describe a task. They are not its output.
ERROR, INTERRUPTED, RESUMED, HANDLED = (
    "__error__",
    "__interrupt__",
    "__resume__",
    "__error_source_node__",
)
TOLD = frozenset({ERROR, INTERRUPTED, RESUMED, HANDLED})
#: Maximum characters of an answered question that are kept for people.
SHOWN = 200


@dataclass(slots=True)
class StoredChannel:
    """A channel of a graph's state, in stored form.

    Attributes:
        version: the channel's version in the library.
        texts: the encoded value, or a text for each item of a list. None: the channel is empty.
        is_list: whether the value is a list.
        parts: the names of the artifacts that have the texts, each with the number of its texts
            that count. Empty: no artifact has the texts yet.
    """

    version: Any
    texts: list[str] | None
    is_list: bool = False
    parts: list[tuple[str, int]] = field(default_factory=list)

    @property
    def is_short(self) -> bool:
        """Whether the value is in the index. Then it has no artifact."""
        return not self.is_list and self.texts is not None and len(self.texts[0]) <= SHORT

    def parts_of(self, texts: Sequence[str]) -> list[tuple[str, int]]:
        """Return the stored parts of this list that a new list can use again.

        They cover the items at the beginning that are equal in both lists.

        Args:
            texts: the encoded items of the new list.

        Returns:
            Pairs of an artifact's name and the number of its texts that the new list has, too.
                Empty if this value is no list, if the first items differ, or if no artifact has
                the texts yet.
        """
        if not self.is_list or self.texts is None:
            return []
        same = common(self.texts, texts)
        parts: list[tuple[str, int]] = []
        for part, most in self.parts:
            taken = min(most, same - sum(count for _, count in parts))
            if taken > 0:
                parts.append((part, taken))
        return parts

    def store(self, name: str, artifacts: dict[str, str]) -> None:
        """Add an artifact with the unstored texts.

        Nothing is added for an empty channel or a short value, or if all texts are stored.

        Args:
            name: the beginning of the artifact's name.
            artifacts: the new artifacts of the round by name. This method adds to them.
        """
        if self.texts is None or self.is_short:
            return
        has = sum(most for _, most in self.parts)
        if has == len(self.texts) and (self.parts or self.is_list):
            return
        name = f"{name}/{self.version}"
        if len(self.parts) >= MOST_PARTS:
            self._join(f"{name}/joined", artifacts)
        artifacts[name] = f"[{','.join(self.texts[has:])}]"
        self.parts = [*self.parts, (name, len(self.texts) - has)]

    def _join(self, name: str, artifacts: dict[str, str]) -> None:
        """Join the longest sequence of adjacent small parts.

        The texts of these parts are written again as one part. The new part has at most ``JOINED``
        characters. If it would replace fewer than ``FEWEST`` parts, nothing changes.
        """
        texts, places = self.texts or [], [0]
        for _, most in self.parts:
            places.append(places[-1] + most)
        lengths = [sum(map(len, texts[begin:end])) for begin, end in itertools.pairwise(places)]
        first, begin, end, total = 0, 0, 0, 0
        for last, length in enumerate(lengths):
            total += length
            while total > JOINED:
                total -= lengths[first]
                first += 1
            if last + 1 - first > end - begin:
                begin, end = first, last + 1
        if end - begin < FEWEST:
            return
        artifacts[name] = f"[{','.join(texts[places[begin] : places[end]])}]"
        self.parts[begin:end] = [(name, places[end] - places[begin])]

    @classmethod
    def of(cls, stored: Sequence[Any], artifact: Callable[[str], str]) -> StoredChannel:
        """Read a channel from its entry in the run's value ``INDEX``, and from its artifacts.

        Args:
            stored: the entry. It has the version, whether the value is a list, and the value itself
                or the names of its artifacts (the result of ``place``).
            artifact: returns the text of an artifact by its name.
        """
        version, is_list, place = stored
        if place is None or isinstance(place, str):
            return cls(version, None if place is None else [place])
        parts = [(part, most) for part, most in place]
        texts = [
            canonical(each) for part, most in parts for each in json.loads(artifact(part))[:most]
        ]
        return cls(version, texts, is_list, parts)

    def place(self) -> Any:
        """Return the channel's value as the run's value ``INDEX`` holds it.

        Returns:
            The text of a short value, the artifacts (``parts``) of another value or a list, or None
            if the channel is empty.
        """
        if self.texts is None:
            return None
        return self.texts[0] if self.is_short else [list(each) for each in self.parts]


@dataclass(frozen=True, slots=True)
class Answered:
    """A task's question with an answer from a person.

    Attributes:
        digest: the digest of the question's value.
        shown: the question's value for people, cut.
    """

    digest: str
    shown: str

    @classmethod
    def to(cls, value: Any) -> Answered:
        """Return the answered question of this value."""
        text = value if isinstance(value, str) else str(value)
        return cls(digest_of(value), safe_text(text, SHOWN))

    def is_of(self, value: Any) -> bool:
        """Return whether this question was asked with ``value``, the argument of ``interrupt``.

        If one of the values has no digest, the result is True: only a certain difference counts.
        """
        return INCOMPARABLE in (self.digest, other := digest_of(value)) or self.digest == other


@dataclass(slots=True)
class TaskWrites:
    """The writes of a task in the current superstep.

    Attributes:
        node: name of the task's node.
        path: the library's path of the task, by which the library orders writes.
        writes: the channels and the encoded values.
        artifact: the name of the artifact with the writes. Empty: they are not stored yet.
        answers: the questions to which the task has answers, in order.
        asks_itself: whether the function of the task's node calls ``interrupt``.
    """

    node: str
    path: str
    writes: list[tuple[str, str]]
    artifact: str = ""
    answers: list[Answered] = field(default_factory=list)
    asks_itself: bool = False

    @property
    def is_finished(self) -> bool:
        """Whether the task has written an output. Then it does not run again."""
        return any(channel not in TOLD for channel, _ in self.writes)

    def data(self) -> dict[str, Any]:
        """Return the task as JSON data."""
        data: dict[str, Any] = {
            "node": self.node,
            "path": self.path,
            "writes": [list(each) for each in self.writes],
        }
        if self.answers:
            data["answers"] = [[each.digest, each.shown] for each in self.answers]
        if self.asks_itself:
            data["asks_itself"] = True
        return data

    @classmethod
    def of(cls, data: Mapping[str, Any], artifact: str = "") -> TaskWrites:
        """Return a task from its JSON data. ``artifact`` is the artifact that has the data."""
        writes = [(channel, text) for channel, text in data["writes"]]
        answers = [Answered(digest, shown) for digest, shown in data.get("answers", ())]
        asks_itself = data.get("asks_itself", False)
        return cls(data["node"], data["path"], writes, artifact, answers, asks_itself)


@dataclass(slots=True)
class Namespace:
    """The last checkpoint of a graph or subgraph.

    Attributes:
        checkpoint: the checkpoint without the values of its channels.
        metadata: the library's metadata of the checkpoint.
        channels: the channels of the checkpoint, by name.
        tasks: the tasks of the superstep that follows the checkpoint, by id.
    """

    checkpoint: dict[str, Any]
    metadata: dict[str, Any]
    channels: dict[str, StoredChannel]
    tasks: dict[str, TaskWrites] = field(default_factory=dict)

    def store(
        self, name: str, step: int, artifacts: dict[str, str], with_tasks: bool = True
    ) -> dict[str, Any]:
        """Return the namespace's entry for ``INDEX``. Add its new artifacts to ``artifacts``.

        Args:
            name: the name of the namespace.
            step: the run's step, for the names of artifacts.
            with_tasks: whether the writes of tasks are stored too.
        """
        channels = {}
        for channel, stored in self.channels.items():
            stored.store(f"channel/{name}{'/' if name else ''}{channel}", artifacts)
            channels[channel] = [stored.version, stored.is_list, stored.place()]
        for task, written in self.tasks.items():
            if with_tasks and not written.artifact:
                written.artifact = f"task/{written.node}/{task}/{step}"
                artifacts[written.artifact] = canonical(written.data())
        return {
            "checkpoint": self.checkpoint,
            "metadata": self.metadata,
            "channels": channels,
            "tasks": {task: written.artifact for task, written in self.tasks.items()},
        }

    @property
    def asks(self) -> bool:
        """Whether a task waits for a person's answer."""
        return any(
            not task.is_finished and any(channel == INTERRUPTED for channel, _ in task.writes)
            for task in self.tasks.values()
        )

    @classmethod
    def of(cls, stored: Mapping[str, Any], artifact: Callable[[str], str]) -> Namespace:
        """Read a namespace from its entry in the run's value ``INDEX``, and from its artifacts.

        Args:
            artifact: returns the text of an artifact by its name.
        """
        channels = {
            name: StoredChannel.of(each, artifact) for name, each in stored["channels"].items()
        }
        tasks = {
            task: TaskWrites.of(json.loads(artifact(name)), name)
            for task, name in stored["tasks"].items()
        }
        return cls(dict(stored["checkpoint"]), dict(stored["metadata"]), channels, tasks)


@dataclass(slots=True)
class RoundTasks:
    """The tasks of a round, for the saver and the nodes.

    Attributes:
        names: the nodes of the round's tasks, by id.
        begun: ids of tasks that have begun.
        written: ids of tasks that have written something, or asked a person, or failed.
        ended: ids of tasks that succeeded.
        asking: ids of tasks whose node calls ``interrupt`` itself.
    """

    names: dict[str, str] = field(default_factory=dict)
    begun: set[str] = field(default_factory=set)
    written: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)
    asking: set[str] = field(default_factory=set)


def is_under_way(space: Namespace, spaces: Mapping[str, Namespace]) -> bool:
    """Return whether a subgraph has not ended.

    Such a subgraph continues from its checkpoint. A subgraph has ended if a graph that contains it
    now has a different checkpoint than the one at which the subgraph began.

    Args:
        space: the checkpoint of the subgraph.
        spaces: the last checkpoints of all graphs of the run, by namespace.
    """
    return all(
        parent in spaces and spaces[parent].checkpoint["id"] == checkpoint
        for parent, checkpoint in space.metadata.get("parents", {}).items()
    )


def resumed(spaces: Mapping[str, Namespace]) -> set[str]:
    """Return the ids of tasks, and names of nodes, that contain a subgraph which has not ended."""
    found: set[str] = set()
    for name, space in spaces.items():
        if name and is_under_way(space, spaces):
            found.update(part.rpartition(":")[2] for part in name.split("|"))
    return found


def common(before: Sequence[str], after: Sequence[str]) -> int:
    """Return the length of the equal beginnings of two lists."""
    for place, (old, new) in enumerate(zip(before, after, strict=False)):
        if old != new:
            return place
    return min(len(before), len(after))
