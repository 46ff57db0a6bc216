"""Verdicts on runs that are damaged, ended, or waiting for a person."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perdure.flows.core.json_values import canonical
from perdure.flows.core.summaries import safe_text
from perdure.worker.diagnostics.run_case import RunCase, iso
from perdure.worker.domain.interrupt import PendingInterrupt
from perdure.worker.domain.record import UNFINISHED, Record, awaited
from perdure.worker.domain.remedy import command_of, remedy_in
from perdure.worker.domain.run import Run
from perdure.worker.domain.verdict import Verdict, VerdictCode
from perdure.worker.errors import DamagedRun
from perdure.worker.presentation.text import count
from perdure.worker.presentation.usage import amount

#: Maximum characters of a flow's own text in a sentence. The advice comes after it and must be
#: visible.
MAX_TEXT = 300
#: Phases in which the runtime must move the run. Such a run must be in the due set.
LIVE = ("queued", "leased", "waiting")
PHASES = (*LIVE, "parked", "interrupted", "stopped", "completed", "errored")


def quarantined(case: RunCase) -> Verdict | None:
    """Return the verdict that the run's stored data is damaged. None if it is not.

    A worker or the sweeper has found the damage and quarantined the run, or this function finds it.
    """
    damage = case.fields.get("error", "") if "quarantined" in case.fields else _damage(case)
    if damage is None:
        return None
    # By the checks of the scripts, the run could continue. A stop prevents that.
    can_go_on = case.standing.damage is None and case.phase in (*LIVE, "parked", "interrupted")
    remove = f"{f'perdure stop {case.id} and ' if can_go_on else ''}perdure delete {case.id}"
    return case.say(
        VerdictCode.QUARANTINED,
        f"The stored data of this run is damaged, so no worker runs it ({damage.rstrip('.')}). "
        "Find out what wrote to the server, and restore its data or submit the goal again. "
        f"To delete the run: {remove}",
        case.time("ended_at") or case.time("updated_at"),
        damage=damage,
    )


def _damage(case: RunCase) -> str | None:
    if case.standing.damage is not None and case.standing.damage != "phase":
        return f"{case.standing.damage} is missing or malformed"
    if case.phase not in PHASES:
        return f"its phase is {case.phase!r}, expected one of {', '.join(PHASES)}"
    is_promised = case.phase in LIVE or (
        case.phase == "parked"
        and ("wait_until" in case.fields or bool(awaited(case.fields)["children"]))
    )
    if is_promised and case.standing.due is None:
        return (
            "it is missing from the due set: the sweep found it damaged and dropped it, "
            "or it was removed by hand"
        )
    try:
        record = Record(case.fields)
        record.check()
        _ = record.state, record.step, record.epoch
    except DamagedRun as error:
        return str(error)
    return None


def ended(case: RunCase) -> Verdict:
    """Return the verdict on an ended or stopped run."""
    fields = case.fields
    match case.phase:
        case "completed" if UNFINISHED in fields:
            used = case.count(UNFINISHED)
            text = (
                f"It used up its {count(used, 'cycle')} and is unfinished. To go on: "
                f"perdure resume {case.id} --add cycles={used}"
            )
            since = "ended_at"
        case "completed":
            text, since = (
                (
                    f"It completed after {count(case.count('step'), 'round')}; "
                    f"perdure show {case.id} has the answer"
                ),
                "ended_at",
            )
        case "errored":
            told = fields.get("error", "no error was stored").rstrip(".")
            text = f"It ended errored: {safe_text(told, MAX_TEXT)}. {_how_to_go_on(case)}"
            since = "ended_at"
        case _:
            by = f" by {fields['stop_by']}" if fields.get("stop_by") else ""
            because = f" ({fields['stop_reason']})" if fields.get("stop_reason") else ""
            # By itself, a run that was stopped with its tree would go on apart from it.
            above = fields.get("parent", "") if fields.get("stop_tree") else ""
            text, since = (
                f"It was stopped{by}{because}. To go on: perdure resume {above or case.id}"
                + (", which continues the runs below it" if above else ""),
                "stopped_at",
            )
    remedy = {"remedy": remedy_in(fields)} if case.phase == "errored" else {}
    error = fields.get("error")
    return case.say(
        VerdictCode.ENDED, text, case.time(since), status=case.phase, error=error, **remedy
    )


def _how_to_go_on(case: RunCase) -> str:
    remedy = remedy_in(case.fields)
    command = f"perdure {command_of(case.id, remedy)}"
    match remedy:
        case "fork":
            return (
                "A retry does not try the failed step again. To try it, fork the run before that "
                f"step: {command}"
            )
        case "again":
            return f"A retry of the same code fails in the same way. To start a new run: {command}"
        case _:
            return f"Fix the cause (and restart the workers, if it was in code), then: {command}"


def waiting_for_a_person(case: RunCase) -> Verdict:
    """Return the verdict on an interrupted run, with its question.

    If the question has a deadline, the sentence says when the default answer applies.
    """
    reason, due = case.fields.get("i_reason", ""), case.standing.due
    until = (
        ""
        if due is None
        else f"; without an answer its default is taken at the deadline, {case.due}"
    )
    waiting = _waiting(case)
    head, ways = _asked(waiting, reason, f"perdure resume {case.id}")
    end = "" if not until and head[-1] in ".?!" else "."
    return case.say(
        VerdictCode.WAITING_FOR_A_PERSON,
        f"{head}{until}{end} {ways}",
        case.time("updated_at"),
        reason=reason,
        node=case.fields.get("i_node"),
        deadline=iso(due),
        kind=waiting.kind if waiting else "question",
    )


def _waiting(case: RunCase) -> PendingInterrupt | None:
    try:
        return PendingInterrupt.of(Run.of(Record(case.fields)))
    except DamagedRun:  # The damage is in a field that neither a transition nor a round reads now.
        return None


def _asked(waiting: PendingInterrupt | None, reason: str, resume: str) -> tuple[str, str]:
    """Return two texts: an interrupted run's question, and how to answer it.

    Args:
        waiting: The run's pending interrupt. None if the run's record cannot be read in full.
        reason: The question as the run stores it.
        resume: The beginning of each command that answers: ``perdure resume ID``.
    """
    question = safe_text(reason, MAX_TEXT)
    match waiting.kind if waiting else "question":
        case "approval":
            assert waiting is not None
            edit = f". To approve it with other arguments: {resume} --edit JSON"
            return f"It waits for a person's approval of {_command(waiting)}", (
                f"To approve it: {resume} --approve. To refuse it, "
                f"with a reason for the {waiting.listener}: {resume} --refuse 'why'"
                f"{edit if waiting.may_be_edited else ''}"
            )
        case "in_doubt":
            assert waiting is not None
            return (
                (
                    f"A worker was lost while it executed {_command(waiting)}. "
                    "Find out whether the command has happened"
                ),
                (
                    f"To execute it (again): {resume} --answer '\"retry\"'. If it has happened: "
                    f"{resume} --answer '{{\"result\": ...}}'. To tell the {waiting.listener}: "
                    f'{resume} --answer \'{{"tell": "..."}}\''
                ),
            )
        case "budget":
            assert waiting is not None and waiting.data is not None
            name, spent, limit = (waiting.data[each] for each in ("budget", "spent", "limit"))
            return (
                (
                    f"{_whose(waiting.data)} of {name} is exhausted: {amount(name, spent)} of "
                    f"{amount(name, limit)} are spent"
                ),
                (f"To continue with as much again: {waiting.how()[0]}"),
            )
        case "pause":
            return f"It waits for a person: {question}", f"To let it continue: {resume}"
        case _:
            told = safe_text(canonical(waiting.shown_data), MAX_TEXT) if waiting else "{}"
            beside = "" if told in ("{}", "null") else f" With it: {told}"
            return (
                f"It waits for a person: {question}{beside}",
                f"To answer: {resume} --answer JSON",
            )


def _whose(data: Mapping[str, Any]) -> str:
    """Return the beginning of a sentence that names the used-up budget.

    ``data`` is the interrupt's data. Its ``of`` is the run above that has the budget. Without
    ``of``, the run itself has it.
    """
    if "of" not in data:
        return "Its budget"
    return f"The budget that it shares with all runs below run {safe_text(data['of'], 40)}"


def _command(waiting: PendingInterrupt | None) -> str:
    assert waiting is not None
    return safe_text(f"{waiting.command} {canonical(dict(waiting.args))}", MAX_TEXT)
