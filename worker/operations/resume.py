"""The operation that continues a run: it validates the answer and raises limits of budgets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from perdure.flows.core.json_values import canonical
from perdure.worker.domain.interrupt import PendingInterrupt
from perdure.worker.domain.record import Record
from perdure.worker.domain.run import Run
from perdure.worker.domain.token import Scope
from perdure.worker.errors import InvalidInput, InvalidTransition, Stale
from perdure.worker.operations import validation
from perdure.worker.operations.answer_checks import (
    asked_above,
    asked_by,
    check_answer,
    check_approver,
    check_takes_answer,
    text_of,
)
from perdure.worker.operations.inbox import asked_below
from perdure.worker.operations.limits import raise_limits
from perdure.worker.operations.operation import Http, Owner, operation
from perdure.worker.operations.raised_limits import (
    check_enough,
    going_on,
    more_cycles,
    raised,
    raising,
)
from perdure.worker.operations.run_reads import get
from perdure.worker.operations.session import Session, damaged, new_operation_id

#: The author (``by``) of the default answer to a question after its deadline.
DEADLINE = "deadline"


@operation(Http("POST", "/runs/{run_id}/resume"), scope=Scope.ANSWER, owner=Owner.RUN)
def resume(
    session: Session,
    run_id: str,
    answer: Any = None,
    add: Mapping[str, float] | None = None,
    interrupt: str | None = None,
    by: str | None = None,
) -> Run:
    """Continue an interrupted, stopped or unfinished run.

    An unfinished run has used up its cycles. A run that paused after its last node completes
    with this call.

    Args:
        answer: The answer to the run's question, as JSON data. An approval takes "approve",
            "refuse", {"refuse": "why"} or {"edit": {...the arguments}}.
        add: Amounts to add to the limits of the run's budgets, by name. For a run that ended
            unfinished, ``cycles``.
        interrupt: Id of the question that is answered (``PendingInterrupt.id``). With it, the
            answer cannot reach a newer question. None answers the open question.
        by: The person who answers. It is stored with the run, and the run's node can read it.

    Raises:
        Forbidden: The flow needs the approval of another person than the submitter.
        InvalidTransition: The run is in none of these states, or it takes no answer.
        Stale: Another answer, resume or round came first, or ``interrupt`` is not open.
        RunNotFound: No run has this id.
        InvalidInput, UnstorableValue: The answer is too large, is not JSON, or does not fit the
            question. Or a budget in ``add`` does not exist, or its amount is too small.
    """
    if by == DEADLINE:
        raise validation.wrong(
            "by", f"the name of a person; {by!r} says that no person answered in time", by
        )
    more = validation.budgets(add, "add")
    record = session.record(run_id)
    if interrupt is not None and (
        record.fields.get("i_id") != interrupt or "i_answer" in record.fields
    ):
        raise Stale(
            f"run {run_id} has no open interrupt {interrupt!r:.80}; read it again: "
            f"perdure show {run_id}"
        )
    question = asked_by(record)
    if answer is not None:
        check_takes_answer(record)
    text = None if answer is None else text_of(answer, session.settings.max_addition_bytes)
    if question is not None and (answer is not None or record.fields.get("phase") == "interrupted"):
        check_answer(question, answer)
        check_approver(question, answer, by, record.fields.get("submitted_by"))
    payer = asked_above(question)
    if payer is not None and more:
        assert question is not None
        _add_above(session, record, question, payer, more, by)
        more, record = {}, session.record(run_id)
        if record.fields.get("phase") != "stopped" and "i_answer" in record.fields:
            return get(session, run_id)  # it went on in the write that raised the limit
    cycles = more_cycles(record, more, answer)
    limits = raised(
        record,
        {name: amount for name, amount in more.items() if not (cycles and name == "cycles")},
    )
    if cycles:
        text = text or "null"  # needed too if it paused or was stopped before its end
    if (
        question is not None
        and question.kind == "budget"
        and (more or payer or record.fields.get("phase") == "interrupted")
    ):
        if payer is None:
            added = {name: record.limits[name] - record.budgets[name] for name in limits}
            raised_limits = {name: limits[name] + added[name] for name in limits}
            check_enough(question, raised_limits, more)
        text = text or "null"  # a stopped run needs it too: it then asks nothing more
    message = session.message(record, 1)
    reply = session.store.runs.resume(
        run_id,
        op=new_operation_id(),
        epoch=record.epoch,
        step=record.step,
        message=message,
        after=session.message(record, 2),
        interrupt=record.fields.get("i_id"),
        answer=text,
        fields=going_on(record, limits, cycles)
        if cycles
        else raising(record, limits)
        if more
        else None,
        digest=record.fields.get("digest") if more else None,
        data=canonical({"added": more}) if more else None,
        more=cycles > 0,
        idempotency_key=record.fields.get("idem"),
        by=by,
    )
    session.publish(record, reply, message)
    return _resumed(session, run_id, reply)


def _resumed(session: Session, run_id: str, reply: Sequence[str]) -> Run:
    """Return the resumed run, or raise the error that the reply of resume_run.lua stands for."""
    match reply:
        case ["queued" | "waiting" | "interrupted" | "completed", *follow_ups]:
            session.look_after(follow_ups)
            return get(session, run_id)
        case ["stale", *_]:
            raise Stale(
                f"run {run_id} has changed: another answer, resume or round came first; "
                f"read it again: perdure show {run_id}"
            )
        case ["running", *_]:
            run = get(session, run_id)
            raise InvalidTransition(
                f"run {run_id} is {run.status.value}; "
                f"only an interrupted or a stopped run can be resumed{asked_below(session, run)}"
            )
        case ["finished", phase]:
            hint = f"; to retry it: perdure retry {run_id}" if phase == "errored" else ""
            raise InvalidTransition(
                f"run {run_id} has {phase}; only an interrupted or a stopped run can be "
                f"resumed{hint}"
            )
        case _:
            raise damaged(run_id, reply)


def _add_above(
    session: Session,
    record: Record,
    question: PendingInterrupt,
    payer: str,
    more: Mapping[str, float],
    by: str | None,
) -> None:
    """Raise a limit of the ancestor ``payer``, as an answer to a run's question.

    Args:
        question: The run's open question, which asks for more of one budget.
        more: The amounts to add, by budget name. The amount for the budget of the question goes to
            the ancestor. The other amounts raise limits of the run itself.

    Raises:
        InvalidInput: The run itself lacks one of the other budgets, or the amount for the budget of
            the question is less than the question asks for.
    """
    data = question.data or {}
    name = data["budget"]
    own = {each: amount for each, amount in more.items() if each != name}
    if unknown := [each for each in own if each not in record.budgets]:
        raise InvalidInput(
            f"run {record.id} asks for more {name} of run {payer}, and has itself no budget "
            f"{unknown[0]!r}; it has: {', '.join(record.budgets) or 'no budgets'}. Answer it "
            f"with {question.how()[0]}. To raise {unknown[0]} of the run above, if it has "
            f"that budget: perdure add {payer} {unknown[0]}={own[unknown[0]]:g}"
        )
    if name in more:
        check_enough(question, {name: data["limit"] + more[name]}, more)
    if own:
        raise_limits(session, record.id, own, by)
    if name in more:
        raise_limits(session, payer, {name: more[name]}, by, child=record.id)
