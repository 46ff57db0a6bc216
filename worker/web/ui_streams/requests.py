"""Requests of chat interfaces. Each has a person's message, or an answer to a run's question."""

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
    """A request body of another protocol. Fields that Perdure does not use are ignored."""

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
    """The conversation so far. Only the last message of a person is used, or the approvals that a
    person answered in the last message. Files must contain their data (`data:` URLs): other URLs
    are an error."""
    trigger: str = "submit-message"
    """`regenerate-message` submits another run for the same message."""
    message_id: str | None = None
    """The id of the message to regenerate."""
    inputs: dict[str, Any] | None = None
    """The flow's inputs, for a new run."""


class AgUiMessage(ChatBody):
    """A message of a conversation, as AG-UI has it. Further fields are allowed."""

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
    """The properties that an app forwards to Perdure."""

    inputs: dict[str, Any] | None = None
    """The flow's inputs, for a new run."""


class AgUiInput(ChatBody):
    """What an `HttpAgent` of AG-UI sends."""

    thread_id: Id
    """The id of the conversation."""
    run_id: Id
    """The client's own id of this response."""
    messages: list[AgUiMessage]
    """The conversation so far. Only the last message of a person is used. Its files must contain
    their data: URLs of files are an error."""
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


def of_ai_sdk(chat: AiSdkChat) -> ChatMessage | ChatAnswer:
    """Return the person's message or answer in a request of the AI SDK.

    An approval that the person answered in the last message is an answer. So is a text after a
    question of kind ``question``, even if other messages of the person stand between them.

    Raises:
        InvalidInput: The request has neither a text or file of a person nor an answer.
        UnsupportedPart: The message has a part that is neither a text nor a file with its data.
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
        InvalidInput: The request has no text or file of a person, or has several answers.
        UnsupportedPart: The message has a part that is neither a text nor a file with its data.
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


def topic_of(chat_id: str) -> str:
    """Return the topic that the live run of a chat holds.

    An id that is too long for a topic, or has other characters, is replaced by its digest.
    """
    topic = f"chat:{chat_id}"
    return topic if TOPIC.fullmatch(topic) else f"chat:{_digest(chat_id)}"


def key_of(protocol: str, flow: str, chat_id: str, message: ChatMessage, more: Any) -> str:
    """Return the idempotency key of a chat message.

    With the key, a repeated request starts no second run.

    Args:
        protocol: The name of the chat interface's protocol.
        more: Further JSON data. Requests with different data get different keys.
    """
    subject = [protocol, flow, chat_id, message.id, message.text, more]
    if message.files:
        subject.append([each.reference.data for each in message.files])
    return f"chat:{_digest(canonical(subject))}"


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


def _is_answered(part: Mapping[str, Any]) -> bool:
    approval = part.get("approval")
    return part.get("state") == "approval-responded" and isinstance(approval, Mapping)


def _answer(approval: Mapping[str, Any], calls: Sequence[UiToolCall]) -> ChatAnswer:
    payload = {"approved": approval.get("approved"), "reason": approval.get("reason")}
    return ChatAnswer(_reference(approval.get("id")), payload, calls=calls)


def _reference(text: Any) -> QuestionReference:
    """Return the parts of a question's name that ``interrupt_ref`` made.

    Raises:
        InvalidInput: ``text`` is not such a name.
    """
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
    """Return a person's message. Its texts are joined with line breaks.

    Args:
        parts: The parts of the message. Any value but a list means no parts.
        file_of: A function that returns a part as a file, or None if the part is no file. Its
            second argument is a number for the name of a file without a name.

    Raises:
        InvalidInput: The message has neither a text nor a file, or a file is not valid.
        UnsupportedPart: A part is neither a text nor a file with its data.
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
    """Return a part of an AI SDK message as a file.

    None if the part is no file. ``number`` is used in the name of a file without a name. For errors
    see ``file_of_url``.
    """
    if part.get("type") != "file":
        return None
    media_type = part.get("mediaType")
    name = part.get("filename") or _file_name(plain_type(media_type), number)
    return file_of_url("file", part.get("url"), name, media_type)


def _ag_ui_file(part: Mapping[str, Any], number: int) -> File | None:
    """Return a part of an AG-UI message as a file.

    None if the part is no file. Parts of version 1.0 have a ``source``. Earlier versions have
    ``binary`` parts. ``number`` is used in the name of a file without a name. For errors see
    ``file_of_url``.
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
    """Return a name for a file without a name: ``picture-1``, ``file-2``."""
    return f"{'picture' if media_type.startswith('image/') else 'file'}-{number}"


def _data(part: Mapping[str, Any]) -> Mapping[str, Any]:
    data = part.get("data")
    return data if isinstance(data, Mapping) else {}


def _open_calls(parts: Sequence[Mapping[str, Any]]) -> list[UiToolCall]:
    """Return an AI SDK message's tool calls without an output.

    Each has the person's decision if its approval was answered.
    """
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
