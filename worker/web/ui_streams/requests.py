"""What chat interfaces send: the last message of a person, or an answer to a question of a run."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool
from pydantic.alias_generators import to_camel

from perdure.flows.errors import InvalidInput
from perdure.flows.json_values import canonical
from perdure.flows.names import TOPIC
from perdure.worker.domain.interrupt import PendingInterrupt
from perdure.worker.web.ui_streams.ai_sdk import INTERRUPT
from perdure.worker.web.ui_streams.writer import UiToolCall

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
    """The conversation so far. Only the last message of a person is used, or its answer."""
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
    """The conversation so far. Only the last message of a person is used."""
    resume: list[AgUiAnswer] | None = None
    """The answer to the interrupt with which the last response ended."""
    forwarded_props: AgUiProps | None = None


@dataclass(frozen=True)
class ChatMessage:
    """A message of a person, which a run is to answer."""

    id: str
    text: str


@dataclass(frozen=True)
class ChatAnswer:
    """An answer of a person to a question of a run.

    Attributes:
        run_id, interrupt: the question.
        payload: what the person said.
        is_cancelled: whether the person did not want to answer.
        calls: the calls of the conversation that have no result.
    """

    run_id: str
    interrupt: str
    payload: Any
    is_cancelled: bool = False
    calls: Sequence[UiToolCall] = ()


class ApprovalPayload(ChatBody):
    """The decision about a call of a tool."""

    approved: StrictBool
    reason: str | None = None
    edited_args: dict[str, Any] | None = None


def of_ai_sdk(chat: AiSdkChat) -> ChatMessage | ChatAnswer:
    """Return what a person says in a chat of the AI SDK.

    Raises:
        InvalidInput: the last message has neither a text nor an answer.
    """
    last = chat.messages[-1]
    if last.role == "assistant" and chat.trigger != "regenerate-message":
        answers = [part for part in last.parts if _is_answered(part)]
        if not answers:
            raise InvalidInput("the last message is an assistant's, and answers no approval")
        return _answer(answers[-1]["approval"], _open_calls(last.parts))
    place = max(
        (number for number, each in enumerate(chat.messages) if each.role == "user"), default=None
    )
    if place is None:
        raise InvalidInput("expected a message of role 'user' among the messages")
    message = chat.messages[place]
    text = _text(message.parts)
    before = chat.messages[place - 1] if place else None
    if before is not None and before.role == "assistant" and chat.trigger == "submit-message":
        asked = [part for part in before.parts if part.get("type") == INTERRUPT]
        if asked and _data(asked[-1]).get("kind") == "question":
            run_id, interrupt = _reference(_data(asked[-1]).get("interrupt"))
            return ChatAnswer(run_id, interrupt, text, calls=_open_calls(before.parts))
    return ChatMessage(message.id, text)


def of_ag_ui(body: AgUiInput) -> ChatMessage | ChatAnswer:
    """Return what a person says in a conversation of AG-UI.

    Raises:
        InvalidInput: there is no message of a person, or several answers.
    """
    if body.resume:
        if len(body.resume) > 1:
            raise InvalidInput("a run asks one question at a time; expected one entry in resume")
        [entry] = body.resume
        run_id, interrupt = _reference(entry.interrupt_id)
        is_cancelled = entry.status == "cancelled"
        calls = _calls_without_result(body.messages)
        return ChatAnswer(run_id, interrupt, entry.payload, is_cancelled, calls)
    last = next((each for each in reversed(body.messages) if each.role == "user"), None)
    if last is None:
        raise InvalidInput("expected a message of role 'user' among the messages")
    parts = [{"type": "text", "text": last.content}] if isinstance(last.content, str) else []
    return ChatMessage(last.id, _text(parts or last.content))


def answer_to(pending: PendingInterrupt, answer: ChatAnswer) -> dict[str, Any]:
    """Return the arguments of ``resume`` for an answer.

    Raises:
        InvalidInput: it does not answer this kind of question.
    """
    if pending.kind == "approval":
        return {"answer": "refuse" if answer.is_cancelled else _decision(answer.payload)}
    if answer.is_cancelled:
        raise InvalidInput(
            f"a question of kind {pending.kind!r} cannot be cancelled; answer it, or stop the run"
        )
    if pending.kind == "budget":
        if not isinstance(answer.payload, Mapping):
            raise InvalidInput('expected the amounts to add by budget, such as {"tokens": 50000}')
        return {"add": dict(answer.payload)}
    return {} if pending.kind == "pause" else {"answer": answer.payload}


def topic_of(chat_id: str) -> str:
    """Return the topic that the live run of a chat holds."""
    topic = f"chat:{chat_id}"
    return topic if TOPIC.fullmatch(topic) else f"chat:{_digest(chat_id)}"


def key_of(protocol: str, flow: str, chat_id: str, message: ChatMessage, more: Any) -> str:
    """Return the idempotency key of a message: a request that is sent again makes no other run."""
    return f"chat:{_digest(canonical([protocol, flow, chat_id, message.id, message.text, more]))}"


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
    run_id, interrupt = _reference(approval.get("id"))
    payload = {"approved": approval.get("approved"), "reason": approval.get("reason")}
    return ChatAnswer(run_id, interrupt, payload, calls=calls)


def _reference(text: Any) -> tuple[str, str]:
    run_id, slash, interrupt = text.partition("/") if isinstance(text, str) else ("", "", "")
    if not (run_id and slash and interrupt):
        raise InvalidInput(
            f"expected the id of an interrupt of a run, such as RUN/3:1; got {text!r:.100}"
        )
    return run_id, interrupt


def _text(parts: Any) -> str:
    """Return the text of a message's parts, in lines."""
    listed = parts if isinstance(parts, list) else []
    texts = [
        part["text"]
        for part in listed
        if isinstance(part, Mapping)
        and part.get("type") == "text"
        and isinstance(part.get("text"), str)
    ]
    if not any(texts):
        raise InvalidInput("the last message of role 'user' has no text")
    return "\n".join(texts)


def _data(part: Mapping[str, Any]) -> Mapping[str, Any]:
    data = part.get("data")
    return data if isinstance(data, Mapping) else {}


def _open_calls(parts: Sequence[Mapping[str, Any]]) -> list[UiToolCall]:
    """Return the calls of a message of the AI SDK that have no output."""
    calls = []
    for part in parts:
        kind = str(part.get("type"))
        is_tool = kind.startswith("tool-") or kind == "dynamic-tool"
        if is_tool and not str(part.get("state")).startswith("output-"):
            name = part.get("toolName") or kind.removeprefix("tool-")
            calls.append(UiToolCall(str(part.get("toolCallId")), str(name)))
    return calls


def _calls_without_result(messages: Sequence[AgUiMessage]) -> list[UiToolCall]:
    """Return the calls of a conversation of AG-UI that have no result."""
    calls: dict[str, UiToolCall] = {}
    for message in messages:
        more = message.model_extra or {}
        for each in more.get("toolCalls") or ():
            function = each.get("function") if isinstance(each, Mapping) else None
            if isinstance(function, Mapping):
                calls[str(each.get("id"))] = UiToolCall(
                    str(each.get("id")), str(function.get("name"))
                )
        calls.pop(str(more.get("toolCallId")), None)
    return list(calls.values())


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()
