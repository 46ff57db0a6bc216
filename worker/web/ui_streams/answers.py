"""Answers of people to runs' questions, in requests of chat interfaces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import StrictBool

from perdure.flows.commands.approval import Approved, read_answer
from perdure.flows.core.errors import InvalidInput
from perdure.worker.domain.interrupt import PendingInterrupt
from perdure.worker.web.question_facts import AnsweredQuestion, is_answer_known
from perdure.worker.web.ui_streams.requests import ChatBody, ChatMessage
from perdure.worker.web.ui_streams.writer import UiToolCall


@dataclass(frozen=True)
class QuestionReference:
    """The parts of a question's name that ``interrupt_ref`` made.

    Attributes:
        run_id: The run whose response showed the question.
        asking: The run that asked: the same run, or a run below it.
        interrupt: The id of the question.
    """

    run_id: str
    asking: str
    interrupt: str


@dataclass(frozen=True)
class ChatAnswer:
    """A person's answer to a question of a run.

    Attributes:
        reference: The question that the person answers.
        payload: The person's answer. None means JSON null, or no answer if ``has_payload`` is
            False.
        has_payload: Whether the request contains an answer.
        is_cancelled: Whether the person declined to answer.
        calls: The tool calls of the conversation that have no result.
        message: The answer as a message of the chat, which is sent if the question is no longer
            open. None: the answer is not a text.
        others: Further answers in the request, the newest first. One of them may be to the open
            question.
    """

    reference: QuestionReference
    payload: Any
    has_payload: bool = True
    is_cancelled: bool = False
    calls: Sequence[UiToolCall] = ()
    message: ChatMessage | None = None
    others: Sequence[ChatAnswer] = ()


class ApprovalPayload(ChatBody):
    """A person's decision about a tool call."""

    approved: StrictBool
    reason: str | None = None
    edited_args: dict[str, Any] | None = None


def reference_of(text: Any) -> QuestionReference:
    """Return the question with this name (``interrupt_ref``)."""
    run_id, _, key = text.partition("/") if isinstance(text, str) else ("", "", "")
    asking, _, interrupt = key.rpartition("/")
    if not (run_id and interrupt):
        raise InvalidInput(
            f"expected the id of an interrupt of a run, such as RUN/3:1; got {text!r:.100}"
        )
    return QuestionReference(run_id, asking or run_id, interrupt)


def answer_to(pending: PendingInterrupt, answer: ChatAnswer) -> dict[str, Any]:
    """Return an answer as keyword arguments for ``AuthorizedClient.resume``: ``answer`` or ``add``.

    Args:
        pending: The open question.

    Raises:
        InvalidInput: The answer does not fit the kind of the question.
    """
    if pending.kind == "approval":
        return {"answer": _decision_in(answer)}
    if answer.is_cancelled:
        raise InvalidInput(
            f"a question of kind {pending.kind!r} cannot be cancelled; answer it, or stop the run"
        )
    if pending.kind == "budget":
        if not isinstance(answer.payload, Mapping):
            raise InvalidInput('expected the amounts to add by budget, such as {"tokens": 50000}')
        return {"add": dict(answer.payload)}
    if pending.kind == "question" and not answer.has_payload:
        raise InvalidInput(
            f"the answer to question {pending.id} of run {pending.run_id} has no payload; expected "
            "the person's answer"
        )
    return {"answer": answer.payload}


def is_answer_of(answered: AnsweredQuestion, answer: ChatAnswer) -> bool:
    """Return whether an answered question has this same answer.

    For an approval, the decisions are compared. For a budget, the added amounts are compared. If
    the stored answer is not known (``is_answer_known``), any answer that is not a text counts as
    the same.
    """
    stored = answered.resumed.data
    if answered.approval is not None:
        try:
            return read_answer(stored.get("answer")) == read_answer(_decision_in(answer))
        except InvalidInput:
            return False
    if answer.is_cancelled:
        return False
    if is_answer_known(answered.resumed):
        return bool(stored.get("answer") == answer.payload)
    return bool(stored["added"] == answer.payload) if "added" in stored else answer.message is None


def decided_calls(
    answer: ChatAnswer, approval: Mapping[str, Any] | None, decision: Any
) -> list[UiToolCall]:
    """Return the tool calls without a result. The call to be approved has the person's decision.

    Requests of the AI SDK already have the decision in the call. Requests of AG-UI do not.

    Args:
        approval: The command that was to be approved, from the data of the question. None: the
            question was no approval, and the calls are returned unchanged.
        decision: The answer to the approval.
    """
    decided = list(answer.calls)
    if approval is None:
        return decided
    reference = answer.reference
    below = None if reference.run_id == reference.asking else reference.asking
    args = approval.get("args")
    asked_args = args if isinstance(args, Mapping) else {}
    calls = [call for call in decided if call.approved is not None]
    approved = isinstance(read_answer(decision), Approved)
    named = [call for call in calls or decided if call.name == approval.get("command")]
    if named:
        call = max(named, key=lambda each: each.fits(asked_args))
        decided[decided.index(call)] = replace(call, approved=approved, below=below)
    return decided


def _decision_in(answer: ChatAnswer) -> Any:
    """Return an approval's answer in the form for ``resume``.

    Raises:
        InvalidInput: The answer is not a decision (``ApprovalPayload``).
    """
    return "refuse" if answer.is_cancelled else _decision(answer.payload)


def _decision(payload: Any) -> Any:
    try:
        decision = ApprovalPayload.model_validate(payload)
    except ValueError as error:
        raise InvalidInput(
            "the answer to an approval is expected to be "
            '{"approved": true or false, "reason": "why", "editedArgs": {the arguments}}'
        ) from error
    if decision.approved:
        return "approve" if decision.edited_args is None else {"edit": decision.edited_args}
    return {"refuse": decision.reason} if decision.reason else "refuse"
