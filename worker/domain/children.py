"""Child runs as they are stored: their ids, the plan of a group, and their outcomes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from perdure.flows.core.json_values import canonical
from perdure.worker.domain.record import Record, digest_of, version_of
from perdure.worker.errors import DamagedRun

if TYPE_CHECKING:
    from perdure.flows.rounds.children import Ended

#: Children of one text of a plan. reconcile_children.lua has the same number.
PLANNED = 32
#: Characters of a child's id.
ID_LENGTH = 24


class PlannedChild(NamedTuple):
    """A child run to start: its hash fields, and its deadline in ms after its start.

    A deadline of None means no deadline.
    """

    fields: Mapping[str, str]
    deadline: int | None = None


def child_of(parent: str, nonce: str, group: str, place: int) -> tuple[str, str]:
    """Return the id and nonce of a child run.

    They follow from the arguments alone, so every process computes the same ones. ``child_of`` in
    parts/family.lua does the same.

    Args:
        parent: The parent's id.
        nonce: The parent's nonce.
        group: The name of the child's group.
        place: The child's position in the group, from 0.
    """
    text = f"{parent} {nonce} {group} {place}"
    digest = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
    return digest[:ID_LENGTH], digest


def pack_plan(children: Sequence[PlannedChild]) -> tuple[str, ...]:
    """Return the plan of a group of children as texts to store.

    The first text has the fields that all children share. Each further text has the other fields of
    up to PLANNED children. From the plan, a worker can start the children without the flow's code.

    Args:
        children: The children, at least one.
    """
    first = children[0].fields
    common = {
        name: text
        for name, text in first.items()
        if all(child.fields.get(name) == text for child in children)
    }
    own = [
        [
            child.deadline,
            {name: text for name, text in child.fields.items() if name not in common},
        ]
        for child in children
    ]
    return canonical(common), *(
        canonical(own[start : start + PLANNED]) for start in range(0, len(own), PLANNED)
    )


def unpack_plan(plan: tuple[str, str], first: int, most: int) -> list[PlannedChild]:
    """Return up to ``most`` planned children from place ``first`` on.

    The list ends with the last child in the second text of ``plan``.

    Args:
        plan: Two texts of ``pack_plan``: the first one, and the one with the child at ``first``.
        first: The position of the first child in its group, from 0.

    Raises:
        ValueError: The plan is damaged, or has no child at this place.
    """
    common, own = json.loads(plan[0]), json.loads(plan[1])
    start = first % PLANNED
    children = [
        PlannedChild({**common, **fields}, deadline)
        for deadline, fields in own[start : start + most]
    ]
    if not children:
        raise ValueError(f"the plan has no child at place {first}")
    return children


def flows_of_plan(group: Mapping[str, str]) -> Callable[[int], str]:
    """Return a function from a child's place to its flow's name.

    The place is the child's position in the group. If the plan is damaged, the returned function
    raises ValueError, LookupError or TypeError.

    Args:
        group: The fields of the group's hash.

    Raises:
        ValueError: The plan's text with the common fields is damaged.
    """
    common = json.loads(group["plan:0"]).get("flow")
    if common is not None:
        return lambda _place: str(common)
    texts: dict[int, Any] = {}

    def flow_at(place: int) -> str:
        number = 1 + place // PLANNED
        if number not in texts:
            texts[number] = json.loads(group[f"plan:{number}"])
        return str(texts[number][place % PLANNED][1]["flow"])

    return flow_at


def born(child: PlannedChild, parent: str, nonce: str, group: str, place: int) -> dict[str, str]:
    """Return a new child run's hash fields, except those of its message.

    Args:
        child: The child as planned.
        parent: The parent's id.
        nonce: The parent's nonce.
        group: The name of the child's group.
        place: The child's position in the group, from 0.
    """
    fields = {
        **child.fields,
        "parent": parent,
        "parent_nonce": nonce,
        "group": group,
        "place": str(place),
    }
    return {**fields, "schema": version_of(fields), "digest": digest_of(fields)}


def ended(record: Record, group: str, place: int, flow: str, text: str) -> Ended:
    """Return the outcome of a child run from its group's hash.

    The answer is None if the child did not complete, or if its answer was too long for the group.

    Args:
        record: The parent.
        place: The child's position in the group, from 0.
        flow: The name of the child's flow.
        text: The text that the hash of the group stores about the child.

    Raises:
        DamagedRun: ``text`` cannot be read.
    """
    from perdure.flows.rounds.children import Ended  # Readers of ids need no classes of waits.

    head, _, body = text.partition("\n")
    try:
        _, status, order, *_ = head.split(" ")
        has_answer = status in ("completed", "unfinished")
        answer: Any = json.loads(body) if has_answer and not is_long(text) else None
        run_id, _ = child_of(record.id, record.fields.get("nonce", ""), group, place)
        return Ended(
            place,
            run_id,
            flow,
            status,
            answer,
            None if has_answer else body or None,
            int(order),
        )
    except ValueError as error:
        raise DamagedRun(
            f"run {record.id}: what it has of child {place} of group {group} cannot be read: "
            f"{head!r:.80}"
        ) from error


def is_long(text: str) -> bool:
    """Return whether a child's answer or error was too long for its parent's group.

    ``text`` is the text that the hash of the group stores about the child. If the answer or error
    was too long, the text has only its first line.
    """
    return text.partition("\n")[0].endswith(" long")
