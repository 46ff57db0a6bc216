"""Checks of a person's answer before the run gets it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perdure.flows.core.json_values import canonical, storable
from perdure.worker.domain.interrupt import PendingInterrupt
from perdure.worker.domain.record import (
    Record,
)
from perdure.worker.domain.run import Run
from perdure.worker.errors import (
    DamagedRun,
    Forbidden,
    InvalidInput,
    InvalidTransition,
)


def asked_by(record: Record) -> PendingInterrupt | None:
    """Return the open interrupt of a run.

    Returns:
        The interrupt. None if no interrupt is open, or if the run's fields are damaged. The Lua
            script of the operation reports the damage later.
    """
    try:
        return PendingInterrupt.of(Run.of(record))
    except DamagedRun:
        return None


def check_takes_answer(record: Record) -> None:
    """Raise InvalidTransition if no node would receive an answer.

    No node receives an answer if the run was stopped without an open interrupt. The same is true if
    the open interrupt is a pause after a node, or asks for more budget.
    """
    fields = record.fields
    if fields.get("phase") == "stopped" and ("i_id" not in fields or "i_answer" in fields):
        raise InvalidTransition(
            f"run {record.id} was stopped and asks nothing; resume it without an answer"
        )
    if "i_id" not in fields or "i_answer" in fields:
        return
    if fields.get("i_kind") == "after":
        raise InvalidTransition(
            f"run {record.id} paused after node {fields.get('i_node')}, which asks nothing; "
            "resume it without an answer"
        )
    if fields.get("i_kind") == "budget":
        raise InvalidTransition(
            f"run {record.id} waits for more of its budget and takes no answer; "
            "resume it with the amount to add"
        )


def text_of(answer: Any, most: int) -> str:
    """Return a person's answer as JSON text.

    Args:
        most: the maximum number of bytes of the text.

    Raises:
        InvalidInput: the text is too long.
        UnstorableValue: the answer is not JSON data.
    """
    text: str = canonical(storable(answer, "the answer"))
    if len(text.encode()) > most:
        raise InvalidInput(
            f"the answer takes {len(text.encode())} bytes; the limit is {most} "
            "(max_addition_bytes). Pass a reference to large things"
        )
    return text


def check_answer(waiting: PendingInterrupt, answer: Any) -> None:
    """Raise InvalidInput unless an answer fits the interrupt ``waiting``.

    Only an approval and a command in doubt need an answer, in a certain form. For every other
    interrupt, each answer is valid, and also None.
    """
    if waiting.kind == "approval":
        from perdure.flows.commands.approval import EXPECTED, read_answer
    elif waiting.kind == "in_doubt":
        from perdure.flows.commands.in_doubt import EXPECTED, read_answer  # type: ignore[assignment]
    else:
        return
    if answer is None:
        raise InvalidInput(
            f"run {waiting.run_id} needs an answer: expected {EXPECTED}. For example: "
            f"{waiting.how()[0]}"
        )
    try:
        read_answer(answer)
    except InvalidInput as error:
        raise InvalidInput(f"run {waiting.run_id}: {error}") from error
    if isinstance(answer, Mapping) and "edit" in answer and not waiting.may_be_edited:
        raise InvalidInput(
            f"run {waiting.run_id}: the arguments of {waiting.command} cannot be changed: "
            "approve or refuse it"
        )


def check_approver(
    waiting: PendingInterrupt, answer: Any, by: str | None, submitter: str | None
) -> None:
    """Raise Forbidden if the person ``by`` must not approve a command.

    In a flow with ``approvers: others``, only another person than the run's submitter may approve.
    Then Forbidden is also raised if ``by`` or ``submitter`` is None. An answer that refuses the
    command is always allowed, and so is every answer to another kind of interrupt.
    """
    from perdure.flows.commands.approval import Approved, read_answer

    if (
        waiting.kind != "approval"
        or waiting.approvers != "others"
        or not isinstance(read_answer(answer), Approved)
    ):
        return
    where = (
        f"run {waiting.run_id}: flow {waiting.flow} needs the approval of another person than "
        "the run's submitter (approvers: others)"
    )
    if submitter is None:
        raise Forbidden(
            f"{where}, but the run names no submitter; submit such runs with perdure submit "
            "--by NAME, or refuse the command"
        )
    if by is None:
        raise Forbidden(
            f"{where}; name the approver: by, or perdure resume {waiting.run_id} --by NAME"
        )
    if by == submitter:
        raise Forbidden(
            f"{where}, and {by} submitted it; {by} may refuse the command, "
            "another person may approve it"
        )


def asked_above(question: PendingInterrupt | None) -> str | None:
    """Return the id of the ancestor whose budget a run's question asks to raise.

    Returns:
        None if there is no question, or if it asks for something else or for the run's own budget.
    """
    if question is None or question.kind != "budget":
        return None
    of = (question.data or {}).get("of")
    return of if isinstance(of, str) else None
