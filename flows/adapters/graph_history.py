"""The history of a LangGraph graph's states. Each round adds a record of its changes.

A record holds the differences from the record before. So a record is small even if the state is
large.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from perdure.flows.core.json_values import canonical

#: Beginning of the names of the artifacts with the records. The number of the step follows.
RECORDS = "state/"
#: Key in the index of a run's checkpoints: the name of the record that has the same states.
RECORD = "record"
#: Keys of a difference: another value, changed and removed keys, a longer or shorter list.
OTHER, CHANGED, REMOVED, ITEMS = "=", "~", "-", "+"

#: The last checkpoints of a graph and its subgraphs by namespace, as they are stored.
Entries = Mapping[str, Mapping[str, Any]]


def difference(before: Any, after: Any) -> dict[str, Any] | None:
    """Return the change from JSON data ``before`` to ``after``. None if they are the same."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        found: dict[str, Any] = {}
        changed = {}
        for name, value in after.items():
            change = difference(before[name], value) if name in before else {OTHER: value}
            if change is not None:
                changed[name] = change
        if changed:
            found[CHANGED] = changed
        if removed := [name for name in before if name not in after]:
            found[REMOVED] = removed
        return found or None
    if isinstance(before, list) and isinstance(after, list):
        same = 0
        for old, new in zip(before, after, strict=False):
            if difference(old, new) is not None:
                break
            same += 1
        return None if same == len(before) == len(after) else {ITEMS: [same, after[same:]]}
    return None if type(before) is type(after) and before == after else {OTHER: after}


def patched(before: Any, change: Mapping[str, Any]) -> Any:
    """Return a copy of ``before`` with a change applied. ``difference`` made the change."""
    if OTHER in change:
        return change[OTHER]
    if ITEMS in change:
        same, items = change[ITEMS]
        return [*before[:same], *items]
    removed = change.get(REMOVED, ())
    result = {name: value for name, value in before.items() if name not in removed}
    for name, each in change.get(CHANGED, {}).items():
        result[name] = patched(result.get(name), each)
    return result


class HistoryRecord:
    """The record of a round: the changes of its checkpoints, in order.

    Args:
        index: the index of checkpoints (``graph_checkpoints.INDEX``) of the last commit. None: the
            run has not committed a checkpoint yet.
    """

    def __init__(self, index: Mapping[str, Any] | None) -> None:
        #: The name of the record before. None: this record holds all of the states.
        self._after = (index or {}).get(RECORD)
        stored = index["namespaces"] if index is not None and self._after else {}
        self._entries = {name: _opened(entry) for name, entry in stored.items()}
        self._changes: list[list[Any]] = []

    def add(self, name: str, entry: Mapping[str, Any], has_tasks: bool = True) -> None:
        """Add a checkpoint of a namespace.

        Args:
            entry: the checkpoint as the index has it (``Namespace.store``).
            has_tasks: whether the entry has all writes of its tasks. If not, its tasks are ignored,
                and the tasks that an earlier round stored for the same checkpoint stay.
        """
        before, after = self._entries.get(name), _opened(entry)
        if not has_tasks:
            is_same = before is not None and before["checkpoint"]["id"] == after["checkpoint"]["id"]
            after["tasks"] = before["tasks"] if before is not None and is_same else {}
        change = difference(before, after)
        if change is not None:
            self._changes.append([name, change])
            self._entries[name] = after

    def keep_only(self, names: Mapping[str, Any]) -> None:
        """Record that all namespaces except ``names`` have ended."""
        for name in [each for each in self._entries if each not in names]:
            del self._entries[name]
            self._changes.append([name, None])

    def text(self, is_partial: bool) -> str:
        """Return the record as the text to store.

        Args:
            is_partial: whether the round leaves tasks of its superstep for the next round.
        """
        data = {"after": self._after, "changes": self._changes}
        return canonical({**data, "is_partial": True} if is_partial else data)


@dataclass(slots=True)
class PastState:
    """A checkpoint of a namespace in the history.

    Attributes:
        parent: the id of the checkpoint before in the same namespace, or None.
        versions: the entries of the checkpoint, oldest first. A new entry is added when a task of
            its superstep has ended.
    """

    parent: str | None
    versions: list[Mapping[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Moment:
    """The last checkpoints of all namespaces at one point in time.

    Attributes:
        entries: the entries of the checkpoints, by namespace.
        is_commit: whether a round was committed with these checkpoints.
        is_partial: whether that round left tasks of its superstep for the next round.
    """

    entries: Entries
    is_commit: bool
    is_partial: bool


class GraphHistory:
    """The history of a run's graph.

    Attributes:
        states: each checkpoint, oldest first, by namespace and id.
        latest: the id of the last checkpoint of each namespace.
        moments: the states of the whole run, oldest first.
    """

    def __init__(self) -> None:
        self.states: dict[tuple[str, str], PastState] = {}
        self.latest: dict[str, str] = {}
        self.moments: list[Moment] = []
        self._entries: dict[str, Mapping[str, Any]] = {}

    def add(self, text: str) -> None:
        """Add the stored record of the next round. Records have to be added in order."""
        record = json.loads(text)
        if record["after"] is None:
            self._entries = {}
        changes: Sequence[Any] = record["changes"]
        for number, (name, change) in enumerate(changes, 1):
            if change is None:
                self._entries = {key: each for key, each in self._entries.items() if key != name}
            else:
                entry = patched(self._entries.get(name), change)
                self._entries = {**self._entries, name: entry}
                self._see(name, entry)
            is_last = number == len(changes)
            self.moments.append(
                Moment(self._entries, is_last, is_last and record.get("is_partial", False))
            )

    def _see(self, name: str, entry: Mapping[str, Any]) -> None:
        checkpoint = entry["checkpoint"]["id"]
        key = (name, checkpoint)
        if key not in self.states:
            self.states[key] = PastState(self.latest.get(name))
            self.latest[name] = checkpoint
        self.states[key].versions.append(entry)

    def is_latest(self, name: str, checkpoint: str) -> bool:
        """Return whether a checkpoint is its namespace's last one."""
        return self.latest.get(name) == checkpoint

    def moments_at(self, name: str, checkpoint: str) -> list[Moment]:
        """Return the moments at which a checkpoint was the last one of its namespace.

        Only moments of a commit are returned. But if no moment of the checkpoint is one of a
        commit, all its moments are returned.
        """
        found = [
            moment
            for moment in self.moments
            if name in moment.entries and moment.entries[name]["checkpoint"]["id"] == checkpoint
        ]
        return [moment for moment in found if moment.is_commit] or found


def _opened(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return an index entry with its channels as mappings.

    Differences between mappings are smaller than those between lists.
    """
    channels = {
        name: {"v": version, "l": is_list, "p": place}
        for name, (version, is_list, place) in entry["channels"].items()
    }
    return {**entry, "channels": channels}


def closed(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return a history entry in the form of the index. It is the reverse of ``_opened``."""
    channels = {name: [each["v"], each["l"], each["p"]] for name, each in entry["channels"].items()}
    return {**entry, "channels": channels}
