"""Child runs as they are stored: their ids, the plan of a group, and how they ended."""

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
    """A child run to start: its hash fields, and its deadline in ms after its start."""

    fields: Mapping[str, str]
    deadline: int | None = None


def child_of(parent: str, nonce: str, group: str, place: int) -> tuple[str, str]:
    """Return the id and nonce of a child run.

    Every process derives the same two, and so does ``child_of`` in parts/family.lua.

    Args:
        parent: the parent's id.
        nonce: the parent's nonce.
        group: name of the child's group.
        place: the child's position in the group, from 0.
    """
    text = f"{parent} {nonce} {group} {place}"
    digest = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
    return digest[:ID_LENGTH], digest


def pack_plan(children: Sequence[PlannedChild]) -> tuple[str, ...]:
    """Return the plan of a group of children as texts to store.

    The first text has the fields that all children share. Each further text has the other fields of
    up to 32 children. A worker can start them without the code of a flow.
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
    """Return up to ``most`` planned children from place ``first``.

    Args:
        plan: the text of the common fields, and the text that holds place ``first``.

    Raises:
        ValueError: The plan is damaged.
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
    """Return a function from a child's place in a group to the name of its flow.

    Args:
        group: The fields of the group's hash.

    Raises:
        ValueError: The plan is damaged. The function raises it too, or LookupError or TypeError.
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
    """Return the hash fields of a new child run, all but its message.

    ``nonce`` is the parent's. ``place`` is the child's position in its group.
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
    """Return how a child run ended, as its parent's group says.

    Args:
        record: the parent.
        text: what the hash of the group stores about the child.

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

    ``text`` is what the group stores about the child. It then has only the first line.
    """
    return text.partition("\n")[0].endswith(" long")
