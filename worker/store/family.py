"""The child runs of a run: their start, their groups, and how they ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from perdure.worker.domain.children import child_of
from perdure.worker.domain.event import FIRST
from perdure.worker.store.connection import StoreConnection
from perdure.worker.store.events import EventReads
from perdure.worker.store.part import StorePart
from perdure.worker.store.reads import RunFields
from perdure.worker.store.replies import ChildrenStep


class Family(StorePart):
    """Transitions and reads of child runs (``store.family``)."""

    def __init__(self, connection: StoreConnection, events: EventReads, reads: RunFields) -> None:
        super().__init__(connection)
        self._events, self._reads = events, reads

    def start(
        self,
        run_id: str,
        *,
        nonce: str,
        group: str,
        first: int,
        children: Sequence[tuple[int | None, Mapping[str, str]]],
    ) -> tuple[str, str, list[tuple[str, str]]]:
        """Start the next child runs of a group.

        start_children.lua creates them, and pushes their first rounds.

        Args:
            run_id: the parent.
            nonce: the parent's nonce.
            first: the place of the first child.
            children: for each the ms until its deadline, and the fields of its hash with its
                message.

        Returns:
            The script's word, its detail, and with an outbox the (queue, message) that the caller
            must publish.
        """
        rest: list[str] = []
        for deadline, fields in children:
            rest += ["" if deadline is None else str(deadline), str(2 * len(fields))]
            for pair in fields.items():
                rest += pair
        word, *details = self._store._call(
            "start_children",
            self.keys.of_run(run_id),
            {"nonce": nonce, "group": group, "from": first},
            rest=rest,
            run_id=run_id,
        )
        to_publish = list(zip(details[1::2], details[2::2], strict=True)) if word == "ok" else []
        return word, details[0] if details else "", to_publish

    def reconcile(
        self,
        run_id: str,
        walk: str | None = None,
        start: str | None = None,
        most: int = 16,
        ended: int = 0,
    ) -> ChildrenStep:
        """Reconcile some children of a run, and return the next step.

        reconcile_children.lua looks at a slice of the children. It stops or continues each child to
        match the run, and reports ended children to the run if that is still to be done.

        Args:
            walk: ``walk`` of the previous step, to continue it.
            start: ``start`` of the previous step: the place to continue at.
            most: number of children to look at.
            ended: number of ended children to skip, beside these.
        """
        named = {"id": run_id, "slice": most, "ended": ended, "walk": walk, "from": start}
        word, *rest = self._store._run("reconcile_children", run_id, named)
        match word, rest:
            case "more", [walk, start, *others]:
                return ChildrenStep("more", walk=walk, start=start, follow_ups=_ids(others))
            case "start", [group, first, nonce, room, common, plans]:
                plan = (common, plans)
                return ChildrenStep("start", group, int(first), nonce, int(room), plan)
            case "done", others:
                return ChildrenStep("done", follow_ups=_ids(others))
        return ChildrenStep(word, start=rest[0] if rest else None)

    def children(self, run_id: str, nonce: str, groups: Sequence[str] = ()) -> list[str]:
        """Return the ids of started children, in start order.

        If the run's oldest events are gone, so are the children in these events, except children of
        the groups that the run still has.

        Args:
            nonce: the run's nonce.
            groups: the names of the run's groups.
        """
        started: list[tuple[str, int]] = []
        after, is_whole = None, True
        while True:
            entries = self._events.read(run_id, after)
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
            counts = {group: self.counts(run_id, group) for group in groups}
            of_groups = [
                (group, place)
                for group in groups
                for place in range(counts[group].get("started", 0))
            ]
            started = [child for child in of_groups if child not in left] + started
        return [child_of(run_id, nonce, group, place)[0] for group, place in started]

    def counts(self, run_id: str, group: str) -> dict[str, int]:
        """Return how many children a run's group has: in all, started, ended (ok, bad), and held.

        Empty if there is no such group.
        """
        key, names = self.keys.group(run_id, group), ("total", "started", "ok", "bad", "held")
        with self._store._answered():
            texts = cast("list[str | None]", self._store.redis.hmget(key, names))
        return {
            name: int(text) for name, text in zip(names, texts, strict=True) if text is not None
        }

    def asking(self, run_id: str, nonce: str, group: str, started: int) -> list[str]:
        """Return a group's children that wait for a person.

        Only the last 200 started are looked at.

        Args:
            nonce: the run's nonce.
            started: the number of started children.
        """
        places = range(max(0, started - 200), started)
        ids = [child_of(run_id, nonce, group, place)[0] for place in places]
        asking = {"phase": "interrupted"}
        found = zip(ids, self._reads.some_fields(ids, ["phase"]), strict=True)
        return [child for child, fields in found if fields == asking]

    def group(self, run_id: str, name: str) -> dict[str, str]:
        """Return the stored hash of a run's group (parts/family.lua)."""
        with self._store._answered():
            return cast("dict[str, str]", self._store.redis.hgetall(self.keys.group(run_id, name)))

    def failed(self, run_id: str, group: str, only_held: bool = False) -> list[int]:
        """Return the places of a group's errored children.

        With ``only_held``, these are only the children that are held back.
        """
        return sorted(
            int(name.partition(":")[2])
            for name, text in self.group(run_id, group).items()
            if (not only_held and name.startswith("end:") and text.startswith("bad errored "))
            or (name.startswith("held:") and text == "errored")
        )

    def held(self, run_id: str, nonce: str, group: str) -> list[tuple[str, str]]:
        """Return the held children of a group: ids and statuses.

        A person has to continue them.
        """
        return [
            (child_of(run_id, nonce, group, int(name.removeprefix("held:")))[0], status)
            for name, status in sorted(self.group(run_id, group).items())
            if name.startswith("held:")
        ]


def _ids(texts: Sequence[str]) -> list[str]:
    return texts[0].split() if texts else []
