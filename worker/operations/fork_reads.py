"""Reads of the parts that a fork takes over from a run: history, spending and artifacts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from typing import Any

from perdure.flows.core.files import BYTES, TYPE, artifact_name, is_of_file
from perdure.flows.core.json_values import canonical
from perdure.flows.core.outcomes import Turn
from perdure.flows.core.thread_messages import ARTIFACT, packed
from perdure.worker.domain.event import FIRST, Event
from perdure.worker.domain.fork import Fork, origins_of, shown_origin
from perdure.worker.domain.record import FILES, FOLLOWS, FORKED, UNFINISHED, Record
from perdure.worker.domain.settle import HISTORY
from perdure.worker.domain.turn_texts import unpack_turns
from perdure.worker.errors import InvalidInput, NotForkable
from perdure.worker.ids import RUN_ID
from perdure.worker.presentation.text import count
from perdure.worker.store import Store
from perdure.worker.store.lookups import is_below
from perdure.worker.store.thread_messages import earlier_messages

#: Maximum number of steps that an error names.
MOST_STEPS = 20
#: The name of an artifact of a child run (or of a child of it) in a turn: ``RUN/NAME``.
BELOW = re.compile(rf"({RUN_ID.pattern})/(.+)", re.DOTALL)


@dataclass(frozen=True)
class ForkPoint:
    """The state of a run before one of its steps.

    Attributes:
        step: The step.
        node: The node of the step.
        turns: Number of turns before the step, including dropped turns.
        spent: Amounts spent by the earlier rounds, by budget name.
    """

    step: int
    node: str
    turns: int
    spent: dict[str, float]


def moment_of(
    record: Record, events: Sequence[Event], step: int, nodes: Sequence[str]
) -> ForkPoint:
    """Return the state of a run before a step, derived from the run's events.

    Args:
        events: All stored events of the run.
        nodes: Nodes at which a fork can begin.

    Raises:
        InvalidInput: The run has no such step.
        NotForkable: A fork cannot begin at this step, or its earlier turns are no longer known.
    """
    run_id, begun = record.id, _beginning(record)
    is_over = record.fields.get("phase") == "completed" and UNFINISHED not in record.fields
    last = record.step - 1 if is_over else record.step
    if step > last:
        raise InvalidInput(
            f"run {run_id} has no step {step} to begin at: it has "
            f"{count(record.step, 'committed round')}"
            f"{' and is completed' if is_over else ''}; {_steps_text(record, events, nodes)}"
        )
    if step < begun:
        other = shown_origin(record)["run"]
        raise NotForkable(
            f"run {run_id} is itself a fork and begins at step {begun}. The rounds before are "
            f"those of run {other}: fork that one"
        )
    node = record.node if step == record.step else _node_of(events, step)
    turns = None if node is None else _turns_before(record, events, step)
    if node is None or turns is None:
        raise NotForkable(
            f"run {run_id} cannot be forked at step {step}: the turns before it are gone or not "
            "known (keep_turns or keep_events of the flow, a renewal, or rounds of an earlier "
            f"release of Perdure); {_steps_text(record, events, nodes)}"
        )
    if node not in nodes:
        raise NotForkable(
            f"run {run_id} cannot be forked at step {step}, node {node}: a fork begins at "
            f"{' or '.join(nodes)}; {_steps_text(record, events, nodes)}"
        )
    spent: dict[str, float] = {}
    for event in events:
        for name in record.spent if event.step < step else ():
            if isinstance(amount := event.data.get(name), int | float):
                spent[name] = spent.get(name, 0) + amount
    return ForkPoint(step, node, turns, spent)


def read_fork(store: Store, record: Record, moment: ForkPoint, values: dict[str, Any]) -> Fork:
    """Return the parts of a run that a fork takes over.

    Args:
        moment: The point of the run at which the fork begins.
        values: The named values with which the fork begins.
    """
    gone = min(record.forgotten, moment.turns)
    stored = store.reads.memory(record.id, 0, moment.turns - gone) if moment.turns > gone else []
    turns = unpack_turns(record.id, stored)
    follows = record.fields.get(FOLLOWS)
    artifacts = _artifacts(store, record, turns, values)
    if follows is not None:
        artifacts[ARTIFACT] = packed(earlier_messages(store, record)[0])
    return Fork(
        run_id=record.id,
        step=moment.step,
        node=moment.node,
        turns=turns,
        forgotten=gone,
        values=values,
        artifacts=artifacts,
        files=record.fields.get(FILES, ""),
        follows=follows,
        spent=moment.spent,
        origins=origins_of(record),
    )


def _beginning(record: Record) -> int:
    """Return the step at which a run began: 0, or the first own step of a fork."""
    return int(shown_origin(record)["step"]) if FORKED in record.fields else 0


def _node_of(events: Sequence[Event], step: int) -> str | None:
    """Return the node of a committed round, or None if its event is gone."""
    found = (each.node for each in events if each.type == "committed" and each.step == step)
    return next(found, None)


def _turns_before(record: Record, events: Sequence[Event], step: int) -> int | None:
    """Return the number of turns before a step, including turns that were dropped before it.

    Returns:
        The number. None if the events do not show it for certain, or if turns that were stored
            before this step have been dropped since.
    """
    if step == record.step:
        return record.turns
    if any(event.type == "renewed" and event.step >= step for event in events):
        return None
    noted = [
        (event.step, *event.data[HISTORY])
        for event in events
        if event.type == "committed" and isinstance(event.data.get(HISTORY), list)
    ]
    before = [each for each in noted if each[0] < step]
    behind = [each for each in noted if each[0] >= step]
    # The turns of a round of an earlier release are not noted. They would be missing here.
    known_before = before[-1][2] if before else _first_turns(record, events)
    known_behind = behind[0][1] if behind else record.turns
    if known_before is None and behind and behind[0][0] == step:
        known_before = known_behind
    if known_before != known_behind:
        return None
    gone_then = behind[0][3] if behind else record.forgotten
    return known_before if gone_then == record.forgotten else None


def _first_turns(record: Record, events: Sequence[Event]) -> int | None:
    """Return the number of turns with which a run began: 0, or the turns that a fork took over.

    Returns:
        The number. None if the run's first events are gone.
    """
    if not events or events[0].type != FIRST:
        return None
    origins = origins_of(record)
    return origins[-1][1] if origins else 0


def _steps_text(record: Record, events: Sequence[Event], nodes: Sequence[str]) -> str:
    """Return the steps at which a run can be forked, as the end of a sentence."""
    committed = [each for each in events if each.type == "committed" and each.node in nodes]
    steps = [
        event.step
        for event in committed[-MOST_STEPS - 1 :]
        if _turns_before(record, events, event.step) is not None
    ]
    is_over = record.fields.get("phase") == "completed" and UNFINISHED not in record.fields
    if not is_over and record.node in nodes:
        steps.append(record.step)
    if not steps:
        return "none of its rounds is left to begin at"
    newest = ", ".join(map(str, steps[-MOST_STEPS:]))
    return f"it can be forked at {'its newest steps ' if len(steps) > MOST_STEPS else ''}{newest}"


def _artifacts(
    store: Store, record: Record, turns: Sequence[Turn], values: dict[str, Any]
) -> dict[str, str]:
    """Return the texts of the artifacts that a fork takes over, by name.

    They are the files of the run, and the artifacts that are named in the turns, the values or the
    inputs. An artifact of a child run has the name ``RUN/NAME``, also among the fork's artifacts. A
    long result is an artifact, so artifacts that its text names are taken over too.

    Args:
        turns: The turns with which the fork begins.
        values: The named values with which the fork begins.
    """
    named: list[Any] = [values, record.inputs, [each.name for each in record.files]]
    for turn in turns:
        command = turn.command
        named.append([turn.observation, command and [dict(command.args), dict(command.extras)]])
    own_names = store.reads.artifacts(record.id)
    artifacts: dict[str, str] = {}
    text = canonical(named)
    while text:
        found = {
            **_own_artifacts(store, record, text, own_names.keys() - artifacts.keys()),
            **_artifacts_below(store, record, set(_texts(named)) - artifacts.keys()),
        }
        found = {name: found[name] for name in found.keys() - artifacts.keys()}
        artifacts |= found
        results = [found[name] for name in sorted(found) if not is_of_file(name)]
        named = [_data_of(each) for each in results]
        text = "\n".join(results)
    return artifacts


def _own_artifacts(store: Store, record: Record, text: str, names: Set[str]) -> dict[str, str]:
    """Return the run's own artifacts whose names a text contains.

    A file is stored as two artifacts, its bytes and its media type. Both are returned.

    Args:
        text: A text of canonical JSON.
        names: The names of the artifacts that are searched for.
    """
    wanted: set[str] = set()
    for name in names:
        own = name.replace(BYTES, "", 1) if BYTES in name else name
        if canonical(own)[1:-1] in text:
            wanted |= {name, name.replace(BYTES, TYPE, 1)} if BYTES in name else {name}
    return {
        name: found
        for name in sorted(wanted)
        if (found := store.reads.artifact(record.id, name)) is not None
    }


def _artifacts_below(store: Store, record: Record, texts: Set[str]) -> dict[str, str]:
    """Return the artifacts that are named in ``texts``, of runs at any depth below a run.

    Args:
        texts: Possible names of artifacts (``RUN/NAME``). A text is ignored if it has another form,
            or if RUN is not below the run.
    """
    artifacts: dict[str, str] = {}
    for name in sorted(texts):
        match = BELOW.fullmatch(name)
        if match is None or not is_below(store, match[1], record.id):
            continue
        for prefix in ("", BYTES, TYPE):
            whole = artifact_name(prefix, name)
            child, _, own = whole.partition("/")
            if (found := store.reads.artifact(child, own)) is not None:
                artifacts[whole] = found
    return artifacts


def _data_of(text: str) -> Any:
    """Return the JSON data in a text, or the text itself if it is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _texts(data: Any) -> Iterator[str]:
    """Yield the texts in JSON data that may be names of artifacts.

    Texts of more than 1,000 characters are skipped. Keys of objects are skipped, too.
    """
    left = [data]
    while left:
        match left.pop():
            case str(text) if len(text) <= 1000:
                yield text
            case dict(mapping):
                left.extend(mapping.values())
            case list(items) | tuple(items):
                left.extend(items)
