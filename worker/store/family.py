"""The child runs of a run: their start, their groups, and the result of each child."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from perdure.worker.domain.children import child_of
from perdure.worker.domain.event import FIRST
from perdure.worker.store.connection import StoreConnection
from perdure.worker.store.events import EventReads
from perdure.worker.store.part import StorePart
from perdure.worker.store.reads import RunFields
from perdure.worker.store.replies import ChildrenStep, StartReply


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
    ) -> StartReply:
        """Create the next child runs of a group, and push their first rounds.

        The script is start_children.lua.

        Args:
            run_id: the id of the parent.
            nonce: the parent's nonce.
            group: the name of the group.
            first: the number of the first new child in its group, from 0.
            children: for each new child the ms until its deadline (None: no deadline), and the
                fields of its hash with its message.
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
        if word != "ok":
            return StartReply(word, *details[:1])
        started, is_over, *messages = details
        to_publish = list(zip(messages[::2], messages[1::2], strict=True))
        return StartReply(word, started, to_publish, bool(is_over))

    def reconcile(
        self,
        run_id: str,
        walk: str | None = None,
        start: str | None = None,
        most: int = 16,
        ended: int = 0,
    ) -> ChildrenStep:
        """Reconcile some children of a run with the run.

        The script is reconcile_children.lua. The script stops or continues each examined child, as
        the state of the run requires. It also delivers the end of a child to the run if that was
        not done yet.

        Args:
            walk: the ``walk`` of the previous result, to go on. None: begin with the first child.
            start: the ``start`` of the previous result, to go on. None: begin with the first child.
            most: the maximum number of children to examine.
            ended: the maximum number of ended children to skip. They do not count for ``most``.

        Returns:
            The next step for the caller. With the word ``damaged``, its ``start`` is the damaged
            key or field.
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
        """Return the ids of a run's started children, in the order of their start.

        The run's events name the children. Old events may have been trimmed. So the children of
        ``groups`` are read from the records of these groups, too. Other children of trimmed events
        are missing.

        Args:
            run_id: the id of the parent.
            nonce: the parent's nonce, from which the ids of its children are computed.
            groups: the names of the groups that the run still has.
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
        """Return the numbers of children of a group, by name.

        The names are ``total``, ``started``, ``ok`` (ended well), ``bad`` (ended otherwise) and
        ``held`` (their end is withheld until a person continues the child).

        Returns:
            Numbers that the group does not have are left out. Empty if there is no such group.
        """
        key, names = self.keys.group(run_id, group), ("total", "started", "ok", "bad", "held")
        with self._store._answered():
            texts = cast("list[str | None]", self._store.redis.hmget(key, names))
        return {
            name: int(text) for name, text in zip(names, texts, strict=True) if text is not None
        }

    def asking(self, run_id: str, nonce: str, group: str, started: int) -> list[str]:
        """Return the group's children that wait for a person.

        They are run ids. Only the 200 children that were started last are checked.

        Args:
            nonce: the parent's nonce.
            started: how many children of the group were started.
        """
        places = range(max(0, started - 200), started)
        ids = [child_of(run_id, nonce, group, place)[0] for place in places]
        asking = {"phase": "interrupted"}
        found = zip(ids, self._reads.some_fields(ids, ["phase"]), strict=True)
        return [child for child, fields in found if fields == asking]

    def group(self, run_id: str, name: str) -> dict[str, str]:
        """Return the stored hash of a run's group (parts/family.lua).

        It is empty if there is no such group.
        """
        with self._store._answered():
            return cast("dict[str, str]", self._store.redis.hgetall(self.keys.group(run_id, name)))

    def failed(self, run_id: str, group: str, only_held: bool = False) -> list[int]:
        """Return the numbers of a group's errored children.

        They are in ascending order. A number is the child's position in its group, from 0.

        Args:
            only_held: leave out the children whose end the parent has received. The ends of the
                others are withheld until a person continues them.
        """
        return sorted(
            int(name.partition(":")[2])
            for name, text in self.group(run_id, group).items()
            if (not only_held and name.startswith("end:") and text.startswith("bad errored "))
            or (name.startswith("held:") and text == "errored")
        )

    def held(self, run_id: str, nonce: str, group: str) -> list[tuple[str, str]]:
        """Return the ids and statuses of a group's children whose end is withheld.

        The parent receives the end of such a child only after a person has continued the child.

        Args:
            nonce: the parent's nonce.
        """
        return [
            (child_of(run_id, nonce, group, int(name.removeprefix("held:")))[0], status)
            for name, status in sorted(self.group(run_id, group).items())
            if name.startswith("held:")
        ]


def _ids(texts: Sequence[str]) -> list[str]:
    return texts[0].split() if texts else []
