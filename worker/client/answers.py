"""Answers: what is sent to a run that waits, checked against what it asks, and its budgets raised."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flows.budgets import check_budgets
from flows.replies import BAD_REPLIES
from flows.values import canonical
from worker.errors import DamagedRun, Forbidden, InvalidInput, InvalidTransition
from worker.record import UNFINISHED, VALUE, Record, digest_of
from worker.run import Run
from worker.waiting import Waiting


def asked_by(record: Record) -> Waiting | None:
    """What the run asks; None where that does not read: the scripts judge damage, and so do workers."""
    try:
        return Waiting.of(Run.of(record))
    except DamagedRun:
        return None


def check_takes_answer(record: Record) -> None:
    """Raise InvalidTransition where no node would get the answer: the open pause is behind a node, or for a budget."""
    fields = record.fields
    if "i_id" not in fields or "i_answer" in fields:
        return
    if fields.get("i_kind") == "after":
        raise InvalidTransition(
            f"run {record.id} paused behind node {fields.get('i_node')}, which has run and asks nothing; resume it without an answer"
        )
    if fields.get("i_kind") == "budget":
        raise InvalidTransition(f"run {record.id} asks for more of its budget and takes no answer; resume it with what to add")


def check_answer(asked: Waiting, answer: Any) -> None:
    """Refuse what answers no approval, or nothing about a command in doubt; raises InvalidInput."""
    if asked.kind == "approval":
        from flows.approvals import EXPECTED, read_answer
    elif asked.kind == "in_doubt":
        from flows.doubts import EXPECTED, read_answer  # type: ignore[assignment]
    else:
        return
    if answer is None:
        raise InvalidInput(f"run {asked.run_id} was given no answer; expected {EXPECTED}. Say for example: {asked.how()[0]}")
    try:
        read_answer(answer)
    except InvalidInput as error:
        raise InvalidInput(f"run {asked.run_id}: {error}") from error


def check_approver(asked: Waiting, answer: Any, by: str | None, submitter: str | None) -> None:
    """Refuse an approval by the run's submitter where the flow wants another person's; raises Forbidden."""
    from flows.approvals import Approved, read_answer

    if asked.kind != "approval" or asked.approvers != "others" or not isinstance(read_answer(answer), Approved):
        return
    where = f"run {asked.run_id}: flow {asked.flow} wants the approval of another person than the run's submitter (approvers: others)"
    if submitter is None:
        raise Forbidden(
            f"{where}, and the run does not say who submitted it; submit such runs with holdfast submit --by NAME, or refuse the command"
        )
    if by is None:
        raise Forbidden(f"{where}; say who approves: by, or holdfast resume {asked.run_id} --by NAME")
    if by == submitter:
        raise Forbidden(f"{where}, and {by} submitted it; {by} may refuse it, and somebody else approve it")


def raised(record: Record, add: Mapping[str, float]) -> dict[str, float]:
    """The limits of the run's budgets once ``add`` is added to them; raises InvalidInput for a name that has no limit."""
    limits = record.budgets
    for name in add:
        if name not in limits:
            raise InvalidInput(
                f"run {record.id} has no limit of {name!r} that could be raised; it has: {', '.join(limits) or 'no budgets'}"
            )
    return check_budgets({**limits, **{name: limits[name] + amount for name, amount in add.items()}})


def check_enough(asked: Waiting, limits: Mapping[str, float], add: Mapping[str, float]) -> None:
    """Refuse to go on with a run whose budget would still be exhausted: it would stop here again; raises InvalidInput."""
    data = asked.data or {}
    name, spent = data["budget"], data["spent"]
    limit = limits.get(name)
    if limit is not None and limit <= spent:
        raise InvalidInput(
            f"run {asked.run_id} has spent {spent:,} of its {name}, and would stop here again with a limit of {limit:,}; "
            f"add more than {round(spent - limit + add.get(name, 0), 6):,}: {asked.how()[0]}"
        )


def raising(record: Record, limits: Mapping[str, float]) -> dict[str, str]:
    """The fields to write for these limits; raises DamagedRun: a new digest must not vouch for what was damaged before."""
    record.check()
    changed = {"budgets": canonical(dict(limits))}
    return {**changed, "digest": digest_of({**record.fields, **changed})}


def is_unfinished(record: Record) -> bool:
    """Whether the run has used up its cycles and may be given more: it has completed, or a person looks before it does."""
    return UNFINISHED in record.fields and "i_answer" not in record.fields


def more_cycles(record: Record, add: Mapping[str, float], answer: Any) -> int:
    """How many cycles an unfinished run is given; 0 where it is not resumed for that.

    Raises:
        InvalidTransition: it has completed, and is given none, or an answer.
        InvalidInput: not a whole number of cycles.
    """
    if not is_unfinished(record):
        return 0
    cycles = add.get("cycles", 0)
    if cycles != int(cycles):
        raise InvalidInput(f"run {record.id}: cycles are added in whole numbers; it got {cycles!r}")
    if record.fields.get("phase") == "completed" and (not cycles or answer is not None):
        used = record.count(UNFINISHED)
        asks = ", and asks nothing" if answer is not None else ""
        raise InvalidTransition(
            f"run {record.id} ended unfinished after {used} of {record.max_rounds} cycles{asks}; "
            f"give it more to go on: holdfast resume {record.id} --add cycles={used}"
        )
    return int(cycles)


def going_on(record: Record, limits: Mapping[str, float], cycles: int) -> dict[str, str]:
    """The fields to write where an unfinished run is given more cycles; its answer is taken back. Raises DamagedRun."""
    record.check()
    most = (record.max_rounds or 0) + cycles
    changed = {"max_rounds": str(most)}
    if "cycles" in limits:  # a budget that is lower would stop it again
        limits = {**limits, "cycles": max(limits["cycles"], most)}
    if limits:
        changed["budgets"] = canonical(dict(limits))
    kept = {name: text for name, text in record.fields.items() if name not in ("answer", "output")}
    return {**changed, "digest": digest_of({**kept, **changed})}


def counting_anew(record: Record) -> dict[str, str]:
    """The fields with which the controller of a retried run begins to count its bad replies anew; none where it counts none.

    What is damaged stays as it is: the round that is retried judges it.
    """
    counted = f"{VALUE}{BAD_REPLIES}"
    if record.fields.get(counted, "0") == "0":
        return {}
    try:
        record.check()
    except DamagedRun:
        return {}
    changed = {counted: "0"}
    return {**changed, "digest": digest_of({**record.fields, **changed})}
