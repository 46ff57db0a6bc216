"""Requests of chat interfaces: a person's last message, or an answer to a run's question."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool
from pydantic.alias_generators import to_camel

from perdure.flows.commands.approval import Approved, read_answer
from perdure.flows.core.errors import InvalidInput
from perdure.flows.core.files import File, files_of
from perdure.flows.core.json_values import canonical
from perdure.flows.core.names import TOPIC
from perdure.worker.domain.interrupt import PendingInterrupt
from perdure.worker.errors import UnsupportedPart
from perdure.worker.web.message_files import (
    file_of_base64,
    file_of_url,
    named_apart,
    plain_type,
)
from perdure.worker.web.question_facts import AnsweredQuestion, is_answer_known
from perdure.worker.web.ui_streams.ai_sdk import INTERRUPT
from perdure.worker.web.ui_streams.tool_results import arguments_of
from perdure.worker.web.ui_streams.writer import UiToolCall

#: Types of a message's parts in AG-UI that have a source.
AG_UI_FILES = frozenset({"image", "audio", "video", "document"})
#: A part of the AI SDK without content. It marks the beginning of a step of a message.
STEP_START = "step-start"

Id = Annotated[str, Field(min_length=1, max_length=500)]


class ChatBody(BaseModel):
    """A body of another protocol. Fields that Perdure does not use may be there."""

    model_config = ConfigDict(
        extra="ignore", use_attribute_docstrings=True, alias_generator=to_camel
    )


class AiSdkMessage(ChatBody):
    """A message of a conversation, as the AI SDK has it."""

    id: str = ""
    role: Literal["system", "user", "assistant"]
    parts: list[dict[str, Any]] = Field(default_factory=list)


class AiSdkChat(ChatBody):
    """What `useChat` of the AI SDK sends."""

    id: Id
    """The id of the chat."""
    messages: Annotated[list[AiSdkMessage], Field(min_length=1)]
    """The conversation so far. Only the last message of a person is used, or its answer. Its files
    come with their data (`data:` URLs): addresses are refused."""
    trigger: str = "submit-message"
    """`regenerate-message` submits a run anew for the same message."""
    message_id: str | None = None
    """The message that is to be made anew."""
    inputs: dict[str, Any] | None = None
    """The flow's inputs, for a new run."""


class AgUiMessage(ChatBody):
    """A message of a conversation, as AG-UI has it. Other fields are kept."""

    model_config = ConfigDict(extra="allow")

    id: str
    role: str
    content: Any = None


class AgUiAnswer(ChatBody):
    """An answer to an interrupt."""

    interrupt_id: str
    status: Literal["resolved", "cancelled"]
    payload: Any = None


class AgUiProps(ChatBody):
    """What an app passes on to Perdure."""

    inputs: dict[str, Any] | None = None
    """The flow's inputs, for a new run."""


class AgUiInput(ChatBody):
    """What an `HttpAgent` of AG-UI sends."""

    thread_id: Id
    """The id of the conversation."""
    run_id: Id
    """The client's own id of this response."""
    messages: list[AgUiMessage]
    """The conversation so far. Only the last message of a person is used. Its files come with their
    data: addresses are refused."""
    resume: list[AgUiAnswer] | None = None
    """The answer to the interrupt with which the last response ended."""
    forwarded_props: AgUiProps | None = None


@dataclass(frozen=True)
class ChatMessage:
    """A message of a person for a run."""

    id: str
    text: str
    files: Sequence[File] = ()


@dataclass(frozen=True)
class QuestionReference:
    """A question by the name that ``interrupt_ref`` made.

    Attributes:
        run_id: the run whose response showed the question.
        asking: the run that asks: the same run, or a run below it.
        interrupt: the id of the question.
    """

    run_id: str
    asking: str
    interrupt: str


@dataclass(frozen=True)
class ChatAnswer:
    """A person's answer to a question of a run.

    Attributes:
        reference: the question, by the name that the response gave it.
        payload: the answer of the person. None: JSON null, or no answer if ``has_payload`` is
            False.
        has_payload: whether the request has an answer.
        is_cancelled: whether the person did not want to answer.
        calls: the tool calls of the conversation that have no result.
        message: the answer as a message of the chat. It counts if the question is no longer open.
            None: the answer is no text.
        others: the other answers in the request, to questions that may be the open one. The newest
            is first.
    """

    reference: QuestionReference
    payload: Any
    has_payload: bool = True
    is_cancelled: bool = False
    calls: Sequence[UiToolCall] = ()
    message: ChatMessage | None = None
    others: Sequence[ChatAnswer] = ()


class ApprovalPayload(ChatBody):
    """The decision about a call of a tool."""

    approved: StrictBool
    reason: str | None = None
    edited_args: dict[str, Any] | None = None


def of_ai_sdk(chat: AiSdkChat) -> ChatMessage | ChatAnswer:
    """Return the person's message or answer in a request of the AI SDK.

    A text after a question is its answer, also behind messages that were refused.

    Raises:
        InvalidInput: the last message has neither a text nor a file nor an answer.
        UnsupportedPart: the message has a part that a run cannot take.
    """
    last = chat.messages[-1]
    if last.role == "assistant" and chat.trigger != "regenerate-message":
        answers = [part for part in last.parts if _is_answered(part)]
        if not answers:
            raise InvalidInput("the last message is an assistant's, and answers no approval")
        calls = _open_calls(last.parts)
        newest = _answer(answers.pop()["approval"], calls)
        others = []
        for part in reversed(answers):
            with suppress(InvalidInput):  # It is an approval of another server.
                others.append(_answer(part["approval"], calls))
        return replace(newest, others=others)
    place = max(
        (number for number, each in enumerate(chat.messages) if each.role == "user"), default=None
    )
    if place is None:
        raise InvalidInput("expected a message of role 'user' among the messages")
    message = chat.messages[place]
    said = _message(message.id, message.parts, _ai_sdk_file)
    before = next((each for each in reversed(chat.messages[:place]) if each.role != "user"), None)
    if before is not None and before.role == "assistant" and chat.trigger == "submit-message":
        asked = [part for part in before.parts if part.get("type") == INTERRUPT]
        if asked and _data(asked[-1]).get("kind") == "question":
            reference = _reference(_data(asked[-1]).get("interrupt"))
            calls = _open_calls(before.parts)
            return ChatAnswer(reference, said.text, calls=calls, message=said)
    return said


def of_ag_ui(body: AgUiInput) -> ChatMessage | ChatAnswer:
    """Return the person's message or answer in a request of AG-UI.

    Raises:
        InvalidInput: there is no message of a person, or several answers.
        UnsupportedPart: the message has a part that a run cannot take.
    """
    if body.resume:
        if len(body.resume) > 1:
            raise InvalidInput("a run asks one question at a time; expected one entry in resume")
        [entry] = body.resume
        is_cancelled = entry.status == "cancelled"
        text = entry.payload
        is_text = isinstance(text, str) and text.strip() != "" and not is_cancelled
        return ChatAnswer(
            _reference(entry.interrupt_id),
            text,
            "payload" in entry.model_fields_set,
            is_cancelled,
            _calls_without_result(body.messages),
            ChatMessage(entry.interrupt_id, text) if is_text else None,
        )
    last = next((each for each in reversed(body.messages) if each.role == "user"), None)
    if last is None:
        raise InvalidInput("expected a message of role 'user' among the messages")
    parts = [{"type": "text", "text": last.content}] if isinstance(last.content, str) else []
    return _message(last.id, parts or last.content, _ag_ui_file)


def answer_to(pending: PendingInterrupt, answer: ChatAnswer) -> dict[str, Any]:
    """Return the arguments with which ``AuthorizedClient.resume`` takes an answer.

    Raises:
        InvalidInput: the answer does not fit the kind of the question.
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
    """Return whether a question that is no longer open has this answer.

    Of an approval, the decisions are compared, and of a budget, the added amounts. If the stored
    answer is not known (``is_answer_known``), each answer that is no text counts as the same.
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
    """Return a conversation's open tool calls, with the person's decision in the call it is about.

    The AI SDK's requests have the decision in the call already. AG-UI's do not.

    Args:
        approval: the call whose approval was asked for, from the data of the question. None: it was
            another question.
        decision: the answer to the approval.
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


def topic_of(chat_id: str) -> str:
    """Return the topic that a chat's live run holds."""
    topic = f"chat:{chat_id}"
    return topic if TOPIC.fullmatch(topic) else f"chat:{_digest(chat_id)}"


def key_of(protocol: str, flow: str, chat_id: str, message: ChatMessage, more: Any) -> str:
    """Return the idempotency key of a message. With it, a repeated request makes no second run.

    ``more`` is further JSON data by which requests differ.
    """
    subject = [protocol, flow, chat_id, message.id, message.text, more]
    if message.files:
        subject.append([each.reference.data for each in message.files])
    return f"chat:{_digest(canonical(subject))}"


def _decision_in(answer: ChatAnswer) -> Any:
    """Return the answer to an approval, in the form that ``resume`` takes."""
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


def _is_answered(part: Mapping[str, Any]) -> bool:
    approval = part.get("approval")
    return part.get("state") == "approval-responded" and isinstance(approval, Mapping)


def _answer(approval: Mapping[str, Any], calls: Sequence[UiToolCall]) -> ChatAnswer:
    payload = {"approved": approval.get("approved"), "reason": approval.get("reason")}
    return ChatAnswer(_reference(approval.get("id")), payload, calls=calls)


def _reference(text: Any) -> QuestionReference:
    """Return the question with this name (``interrupt_ref``)."""
    run_id, _, key = text.partition("/") if isinstance(text, str) else ("", "", "")
    asking, _, interrupt = key.rpartition("/")
    if not (run_id and interrupt):
        raise InvalidInput(
            f"expected the id of an interrupt of a run, such as RUN/3:1; got {text!r:.100}"
        )
    return QuestionReference(run_id, asking or run_id, interrupt)


def _message(
    message_id: str, parts: Any, file_of: Callable[[Mapping[str, Any], int], File | None]
) -> ChatMessage:
    """Return a person's message: its text in lines, and its files.

    Args:
        file_of: returns a part as a file, or None if the part is no file. The number is for files
            without a name.

    Raises:
        InvalidInput: the message has neither a text nor a file, or a file is not valid.
        UnsupportedPart: a part is neither a text nor a file. A run would miss this part.
    """
    texts: list[str] = []
    files: list[File] = []
    for number, part in enumerate(parts if isinstance(parts, list) else [], 1):
        kind = part.get("type") if isinstance(part, Mapping) else None
        if kind == "text" and isinstance(part.get("text"), str):
            texts.append(part["text"])
        elif kind != STEP_START:
            file = file_of(part, len(files) + 1) if isinstance(kind, str) else None
            if file is None:
                raise UnsupportedPart(
                    f"part {number} of the last message of role 'user' has the type "
                    f"{str(kind)[:60]!r}, which a run cannot take; expected texts and files with "
                    "their data. Pass other data in inputs"
                )
            files.append(file)
    text = "\n".join(texts)
    if not text.strip() and not files:
        raise InvalidInput("the last message of role 'user' has no text and no file")
    return ChatMessage(message_id, text, files_of(named_apart(files)))


def _ai_sdk_file(part: Mapping[str, Any], number: int) -> File | None:
    """Return an AI SDK part as a file, or None if it is no file."""
    if part.get("type") != "file":
        return None
    media_type = part.get("mediaType")
    name = part.get("filename") or _file_name(plain_type(media_type), number)
    return file_of_url("file", part.get("url"), name, media_type)


def _ag_ui_file(part: Mapping[str, Any], number: int) -> File | None:
    """Return an AG-UI part as a file, or None if it is no file.

    Parts of version 1.0 have a ``source``. Earlier versions have ``binary`` parts.
    """
    kind = str(part.get("type"))
    source: Any = part.get("source")
    if kind == "binary":
        data, url, media_type = part.get("data"), part.get("url"), part.get("mimeType")
        name = part.get("filename")
    elif kind in AG_UI_FILES and isinstance(source, Mapping):
        has_data = source.get("type") == "data"
        data, url = (source.get("value"), None) if has_data else (None, source.get("value"))
        media_type = source.get("mimeType")
        more: Any = part.get("metadata")
        name = more.get("filename") if isinstance(more, Mapping) else None
    else:
        return None
    name = name or _file_name(plain_type(media_type) or f"{kind}/", number)
    if isinstance(data, str) and data and not data.startswith("data:"):
        return file_of_base64(data, name, media_type)
    return file_of_url(kind, data or url, name, media_type)


def _file_name(media_type: str, number: int) -> str:
    """Return a name for a nameless file: ``picture-1``, ``file-2``."""
    return f"{'picture' if media_type.startswith('image/') else 'file'}-{number}"


def _data(part: Mapping[str, Any]) -> Mapping[str, Any]:
    data = part.get("data")
    return data if isinstance(data, Mapping) else {}


def _open_calls(parts: Sequence[Mapping[str, Any]]) -> list[UiToolCall]:
    """Return the tool calls without an output in an AI SDK message's parts."""
    calls = []
    for part in parts:
        kind = str(part.get("type"))
        is_tool = kind.startswith("tool-") or kind == "dynamic-tool"
        if is_tool and not str(part.get("state")).startswith("output-"):
            name = part.get("toolName") or kind.removeprefix("tool-")
            approval, args = part.get("approval"), part.get("input")
            decision = approval.get("approved") if isinstance(approval, Mapping) else None
            calls.append(
                UiToolCall(
                    str(part.get("toolCallId")),
                    str(name),
                    args if isinstance(args, Mapping) else None,
                    decision if isinstance(decision, bool) else None,
                )
            )
    return calls


def _calls_without_result(messages: Sequence[AgUiMessage]) -> list[UiToolCall]:
    """Return the tool calls without a result in an AG-UI conversation."""
    calls: dict[str, UiToolCall] = {}
    for message in messages:
        more = message.model_extra or {}
        for each in more.get("toolCalls") or ():
            function = each.get("function") if isinstance(each, Mapping) else None
            if isinstance(function, Mapping):
                calls[str(each.get("id"))] = UiToolCall(
                    str(each.get("id")),
                    str(function.get("name")),
                    arguments_of(function.get("arguments")),
                )
        calls.pop(str(more.get("toolCallId")), None)
    return list(calls.values())


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()
