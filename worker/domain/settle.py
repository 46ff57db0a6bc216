"""The settlement of a round from the outcome of its node.

The functions are pure: they take and return frozen data. The scripts of claim and commit check for
a stop request, because only a script can check it without a race.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from perdure.flows.core.durations import as_seconds
from perdure.flows.core.errors import FatalError, InvalidInput, UnstorableValue
from perdure.flows.core.files import BYTES
from perdure.flows.core.json_values import canonical, storable
from perdure.flows.core.names import ONLY
from perdure.flows.core.outcomes import ASK, SAY, Advance, End, Interrupt, Outcome, Renew, Turn
from perdure.worker.domain.execution_state import ExecutionStatus
from perdure.worker.domain.pauses import pause_behind, pause_between, pause_fields, rounds_exhausted
from perdure.worker.domain.record import (
    EARLIER_CYCLES,
    ENDING,
    FORGOTTEN,
    GENERATION,
    KEEP_EVENTS,
    SINCE,
    UNFINISHED,
    VALUE,
    Record,
    content_of,
    digest_of_content,
    version_of,
)
from perdure.worker.domain.round_sizes import check_sizes
from perdure.worker.domain.settlement import (
    LONGEST,
    Beside,
    Kind,
    NextMessage,
    Settlement,
    milliseconds,
)
from perdure.worker.domain.turn_texts import pack_turn
from perdure.worker.domain.value_log import changes_of

if TYPE_CHECKING:
    from perdure.flows.rounds.flow import Flow
    from perdure.worker.settings import Settings

#: Key in the data of a round's event: numbers of turns before the round, after it, and deleted
#: before it.
HISTORY = "history"


def settle(
    record: Record,
    flow: Flow,
    outcome: Outcome,
    remembered: Mapping[str, Any],
    settings: Settings,
    event_data: Mapping[str, Any] | None = None,
) -> Settlement:
    """Return the settlement of a round from its node's outcome.

    Args:
        record: The run as the round's claim read it.
        remembered: Named values that the node stored. If the outcome has a value of the same name,
            that of the outcome counts.
        event_data: Further data for the round's event, beside the outcome's summary.

    Raises:
        UnstorableValue: A returned value does not read back equal, or exceeds a limit.
        InvalidAnswer: The answer at the end of the run does not fit the flow's answer type.
        FatalError: The flow has no node of the requested name. Or a renewal has inputs that do not
            fit, or an invalid ``keep_turns``.
    """
    node = record.node
    if isinstance(outcome, End) and flow.Answer is not None:
        outcome = _typed_end(record, flow, outcome)
    settlement = _settled(
        record, flow, node, outcome, remembered, event_data or {}, settings.max_record_bytes
    )
    if flow.keep_events is not None and settlement.is_done:
        keep = flow.keep_events
        settlement = settlement._replace(
            fields={**settlement.fields, KEEP_EVENTS: str(keep)},
            options={**settlement.options, KEEP_EVENTS: keep},
        )
    check_sizes(record, settlement, settings)
    if settlement.kind != "end":
        return settlement
    options = {**settlement.options, "heed": HEEDED}
    otherwise = outcome.otherwise if isinstance(outcome, End) else None
    if otherwise is None:
        return settlement._replace(options={**options, "insist": 1})
    instead = settle(record, flow, otherwise, remembered, settings, event_data)
    return settlement._replace(options=options, otherwise=instead)


def _typed_end(record: Record, flow: Flow, end: End) -> End:
    """Return ``end`` with the answer in the flow's answer type.

    ``end`` is returned unchanged for an unfinished run, which has no such answer, and for a run of
    a single command, whose answer is the command's observation.

    Raises:
        InvalidAnswer: The answer does not fit the answer type.
    """
    if _is_unfinished(end) or VALUE + ONLY in record.fields:
        return end
    answer = flow.check_answer(end.answer, f"run {record.id}, step {record.step}: ")
    output = {**end.output, "answer": answer} if "answer" in end.output else end.output
    return replace(end, answer=answer, output=output)


def _is_unfinished(end: End) -> bool:
    return end.output.get("status") == "unfinished"


#: Signals that a run must have read before it ends (``heed`` in commit_round.lua).
HEEDED = f"{SAY} {ASK}"


def completed(record: Record, settlement: Settlement, beside: Beside) -> Settlement:
    """Return the settlement with the other writes of its commit."""
    fields = settlement.fields
    if beside.accounts:
        fields = {**fields, **beside.accounts}
        fields |= _sealed(record, content_of(fields), settlement.renews)
    return settlement._replace(
        fields={**fields, **beside.fields}, options={**settlement.options, **beside.options}
    )


def _settled(
    record: Record,
    flow: Flow,
    node: str,
    outcome: Outcome,
    remembered: Mapping[str, Any],
    event_data: Mapping[str, Any],
    most_recorded: int,
) -> Settlement:
    if isinstance(outcome, Interrupt):
        return pause_here(record, node, outcome)
    changed_values = (
        _renewed_values(record, outcome, remembered)
        if isinstance(outcome, Renew)
        else {**remembered, **outcome.values}
    )
    values = {
        name: storable(value, f"the value {name!r}") for name, value in changed_values.items()
    }
    turns = tuple(
        pack_turn(
            Turn(turn.command, storable(turn.observation, f"the observation of node {node}")),
            record.id,
        )
        for turn in outcome.turns
    )
    options: dict[str, str | int] = {}
    artifacts = {
        name: text if name.startswith(BYTES) else str(storable(text, f"the artifact {name!r}"))
        for name, text in outcome.artifacts.items()
    }
    changed = {VALUE + name: canonical(value) for name, value in values.items()}
    changed["turns"] = str(record.turns + len(turns))
    if flow.record_values:
        told = changes_of(
            record,
            changed,
            flow.own_values,
            0 if isinstance(outcome, End) else most_recorded,
            isinstance(outcome, Renew),
        )
        if isinstance(outcome, End) and not _is_unfinished(outcome):
            told = told.partition(" !")[0]  # No step follows that could need them.
        if told:
            options["record"] = told
    keeps = [] if flow.keep_turns is None else [flow.keep_turns]
    if isinstance(outcome, Renew):
        keeps.append(_keep_turns(outcome))
    if keeps and (gone := record.turns + len(turns) - min(keeps)) > record.forgotten:
        changed[FORGOTTEN] = str(gone)
        options["forget"] = min(gone, record.turns) - record.forgotten
        turns = turns[max(0, gone - record.turns) :]
    data = {**outcome.summary, **event_data}
    if (outcome.turns or FORGOTTEN in changed) and flow.fork_nodes:
        # A fork reads from it which turns there were before a step.
        data[HISTORY] = [record.turns, record.turns + len(outcome.turns), record.forgotten]
    options["data"] = canonical(storable(data, "the summary")) if data else "{}"
    if isinstance(outcome, Renew):
        return _renew(record, flow, node, outcome, changed, turns, artifacts, options)
    if isinstance(outcome, Advance):
        cycles = record.cycles + outcome.ends_cycle
        changed["cycles"] = str(cycles)
        if not (outcome.ends_cycle and rounds_exhausted(cycles, record.max_rounds)):
            return _advance(record, flow, node, outcome.node, changed, turns, artifacts, options)
        _check_next(flow, node, outcome.node)
        # Store the next node: if the run is given more cycles, it continues there in a new epoch.
        changed["current_node"] = outcome.node
        message = NextMessage(outcome.node, record.epoch + 1, record.step + 1)
        end = _end(
            record,
            node,
            flow.exhausted({**record.values, **values}),
            changed,
            {UNFINISHED: str(cycles)},
        )
        return end._replace(additions=turns, artifacts=artifacts, message=message, options=options)
    return _end(record, node, outcome, changed)._replace(
        additions=turns, artifacts=artifacts, options=options
    )


def _end(
    record: Record,
    node: str,
    end: End,
    changed: dict[str, str],
    beside: Mapping[str, str] = MappingProxyType({}),
) -> Settlement:
    """Return the settlement of a run's last round.

    If the run pauses after this node (``interrupt_after``), clients see the answer only when a
    person has resumed the run.

    Args:
        changed: The changed content fields. ``answer`` and ``output`` are added to this dict.
        beside: Further fields that are not content.
    """
    changed["answer"] = canonical(storable(end.answer, "the answer"))
    changed["output"] = canonical(storable(end.output, "the output"))
    fields = {**_sealed(record, changed), **beside}
    pause = pause_behind(node, record.json("interrupt_after", []))
    if pause is None:
        return Settlement("end", fields)
    # An older worker would run the last node again. The schema version makes the run wait for a
    # worker that knows ``ENDING``.
    return Settlement(
        "pause_next",
        {
            **fields,
            **pause_fields(pause),
            ENDING: "1",
            "schema": version_of([*record.fields, ENDING]),
        },
    )


def end_of(record: Record) -> Settlement:
    """Return the settlement that ends a run whose last round is already committed.

    Such a run was paused after its last node, and a client of an earlier release resumed it. The
    node must not run again.
    """
    return Settlement(
        "end",
        {name: record.fields[name] for name in (UNFINISHED,) if name in record.fields},
        options={"data": "{}", "heed": HEEDED, "insist": 1},
    )


def _advance(
    record: Record,
    flow: Flow,
    node: str,
    coming: str,
    changed: dict[str, str],
    turns: tuple[str, ...],
    artifacts: Mapping[str, str],
    options: Mapping[str, str | int],
) -> Settlement:
    """Return the settlement that advances the run to the node ``coming``.

    If the run pauses between the two nodes, the next round waits for a person. Otherwise its
    message is published at once.

    Raises:
        FatalError: The flow has no node ``coming``.
    """
    _check_next(flow, node, coming)
    fields = _sealed(record, {**changed, "current_node": coming}, GENERATION in options)
    pause = pause_between(
        node, coming, record.json("interrupt_before", []), record.json("interrupt_after", [])
    )
    kind: Kind = "next"
    epoch = record.epoch
    # The message belongs to the next epoch, which the person's answer begins.
    if pause is not None:
        kind, epoch, fields = "pause_next", epoch + 1, {**fields, **pause_fields(pause)}
    return Settlement(
        kind, fields, turns, artifacts, NextMessage(coming, epoch, record.step + 1), options
    )


def _renew(
    record: Record,
    flow: Flow,
    node: str,
    renew: Renew,
    changed: dict[str, str],
    turns: tuple[str, ...],
    artifacts: Mapping[str, str],
    options: Mapping[str, str | int],
) -> Settlement:
    """Return the settlement that starts the run again at its first node.

    Raises:
        FatalError: The inputs of ``renew`` do not fit the flow.
    """
    if renew.inputs is not None:
        try:
            inputs = flow.check_inputs(renew.inputs)
        except (InvalidInput, TypeError, ValueError) as error:
            raise FatalError(
                f"run {record.id}, step {record.step}: node {node} renewed the run with inputs "
                f"that do not fit: {error}. Nothing of the run is lost: correct the code, then "
                f"`perdure retry {record.id}`"
            ) from error
        changed |= {"inputs": canonical(inputs), "inputs_checked": "1"}
    generation = record.count(GENERATION) + 1
    changed[GENERATION] = str(generation)
    changed["cycles"] = "0"
    changed[EARLIER_CYCLES] = str(record.cycles + record.count(EARLIER_CYCLES))
    return _advance(
        record,
        flow,
        node,
        flow.first_node,
        changed,
        turns,
        artifacts,
        {**options, GENERATION: generation},
    )


def _renewed_values(record: Record, renew: Renew, remembered: Mapping[str, Any]) -> dict[str, Any]:
    """Return the named values that a renewed run begins with.

    If ``renew.values`` is None, they are all values of the run and of this round, except the flow's
    own, whose names begin with ``_``.
    """
    if renew.values is not None:
        return dict(renew.values)
    kept = {**record.values, **remembered}
    return {name: value for name, value in kept.items() if not name.startswith("_")}


def _keep_turns(renew: Renew) -> int:
    """Return how many of the newest turns a renewal keeps.

    Raises:
        FatalError: ``keep_turns`` is not a whole number from 0.
    """
    keep = renew.keep_turns
    if type(keep) is not int or keep < 0:
        raise FatalError(f"Renew: keep_turns is {keep!r}; expected a whole number from 0")
    return keep


def _check_next(flow: Flow, node: str, coming: str) -> None:
    if coming not in flow.nodes:
        raise FatalError(
            f"node {node} asked for the unknown next node {coming!r}; "
            f"flow {flow.name!r} has: {', '.join(flow.nodes)}"
        )


def pause_here(record: Record, node: str, interrupt: Interrupt) -> Settlement:
    fields = {
        "i_kind": "node",
        "i_status": ExecutionStatus.INTERRUPTED_BEFORE.value,
        "i_node": node,
        "i_reason": str(storable(interrupt.reason, "the interrupt's reason")),
        "i_default": canonical(storable(interrupt.default, "the interrupt's default")),
    }
    if interrupt.data is not None:
        data = storable(interrupt.data, "the interrupt's data")
        fields["i_data"] = canonical(data if isinstance(data, dict) else {"data": data})
    if interrupt.deadline is not None:
        try:
            seconds = as_seconds(interrupt.deadline)
        except ValueError as error:
            raise UnstorableValue(f"the interrupt's deadline: {error}") from error
        if not math.isfinite(seconds) or seconds > LONGEST:
            raise UnstorableValue(
                f"the interrupt's deadline is {seconds!r} seconds; "
                "leave it out if there is no time limit for the answer"
            )
        fields["i_wait"] = str(milliseconds(max(seconds, 0.0)))
    return Settlement(
        "pause_here", fields, message=NextMessage(node, record.epoch + 1, record.step)
    )


def _sealed(record: Record, changed: Mapping[str, str], renewed: bool = False) -> dict[str, str]:
    """Return the changed content fields with new digest and schema.

    The digest covers the whole new content. The schema is included only if a changed field may need
    a newer schema version.

    Args:
        renewed: Whether the round drops all named values that are not in ``changed``.
    """
    content = {**record.content, **changed}
    if renewed:
        for name in record.value_texts.keys() - changed.keys():
            del content[name]
    version = (
        {}
        if SINCE.keys().isdisjoint(changed)
        else {"schema": version_of([*record.fields, *changed])}
    )
    return {**changed, **version, "digest": digest_of_content(content)}
