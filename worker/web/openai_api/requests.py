"""Request bodies of OpenAI's API, and their meaning for runs.

A flow itself decides how it asks its models. Sampling fields (such as ``temperature``) are accepted
but have no effect, because many clients always send them. A field that demands something Perdure
cannot do is an error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fastapi import HTTPException
from pydantic import model_validator

from perdure.flows.core.errors import InvalidInput, UnstorableValue
from perdure.flows.core.json_values import storable
from perdure.worker.errors import UnsupportedPart
from perdure.worker.web.api.requests import Asked
from perdure.worker.web.json_body import read
from perdure.worker.web.openai_api.files import FILE_PARTS

#: Kinds of questions, which are the names of the functions by which a run asks them.
QUESTIONS = ("approval", "in_doubt", "budget", "question", "pause")
#: Separates the run's id from the question's, in the id of a call by which a run asks.
CALL_SEPARATOR = "/"


#: Roles of messages that are no work of the assistant.
MESSAGE_ROLES = frozenset({"user", "system", "developer"})
#: Types of the assistant's items, besides those that end with ``_call``. A client may send a
#: reference instead of an item of an earlier response.
ASSISTANT_ITEMS = frozenset({"item_reference", "reasoning"})
#: Beginning of a goal that is a conversation (``goal_of``), and of each of its turns.
TURN = r"(?:system|developer|user|assistant|tool): "
CONVERSATION = re.compile(rf"(?s){TURN}.*\n\n{TURN}")


class PersonsOutput(NamedTuple):
    """A person's answer, sent as a function call's output.

    Attributes:
        run_id: The run that asked.
        question: The id of the question.
        text: The answer, as the text of the output.
    """

    run_id: str
    question: str
    text: str


class OpenAIRequest(Asked):
    """Fields that requests for responses and for chat completions have in common."""

    model: str
    """The name of the flow."""
    inputs: dict[str, Any] | None = None
    """The flow's inputs, which OpenAI's API does not have."""
    metadata: dict[str, str] | None = None
    """The labels of the run."""
    stream: bool | None = None
    stream_options: dict[str, Any] | None = None
    store: bool | None = None
    tools: list[dict[str, Any]] | None = None
    parallel_tool_calls: bool | None = None
    prompt_cache_key: str | None = None
    reasoning_effort: Any = None
    safety_identifier: str | None = None
    seed: Any = None
    service_tier: Any = None
    temperature: Any = None
    tool_choice: Any = None
    top_logprobs: Any = None
    top_p: Any = None
    user: str | None = None
    verbosity: Any = None

    @model_validator(mode="after")
    def _promise_nothing(self) -> OpenAIRequest:
        if self.store is False:
            raise ValueError("store is false, but a run is always stored")
        for tool in self.tools or ():
            function = tool.get("function")
            name = function.get("name") if isinstance(function, Mapping) else tool.get("name")
            if name not in QUESTIONS:
                raise ValueError(
                    f"tool {name!r}: a run calls no tools of its client, except to ask a person: "
                    f"{', '.join(QUESTIONS)}"
                )
        return self


class CreateResponse(OpenAIRequest):
    """Body of ``POST /v1/responses``."""

    input: str | list[dict[str, Any]]
    instructions: str | None = None
    background: bool | None = None
    previous_response_id: str | None = None
    include: Any = None
    max_output_tokens: Any = None
    max_tool_calls: Any = None
    reasoning: Any = None
    text: dict[str, Any] | None = None
    truncation: Any = None

    @model_validator(mode="after")
    def _promise_text(self) -> CreateResponse:
        _check_format((self.text or {}).get("format"), "text.format")
        return self


class CreateChatCompletion(OpenAIRequest):
    """Body of ``POST /v1/chat/completions``."""

    messages: list[dict[str, Any]]
    n: int | None = None
    frequency_penalty: Any = None
    logit_bias: Any = None
    logprobs: bool | None = None
    max_completion_tokens: Any = None
    max_tokens: Any = None
    presence_penalty: Any = None
    response_format: dict[str, Any] | None = None
    stop: Any = None

    @model_validator(mode="after")
    def _promise_text(self) -> CreateChatCompletion:
        _check_format(self.response_format, "response_format")
        if self.n not in (None, 1):
            raise ValueError(f"n is {self.n}, but a run has one answer")
        return self

    @property
    def includes_usage(self) -> bool:
        """Whether the client asks for the used tokens at the end of the stream."""
        return (self.stream_options or {}).get("include_usage") is True


def _check_format(wanted: Any, name: str) -> None:
    kind = wanted.get("type") if isinstance(wanted, Mapping) else None
    if wanted is not None and kind != "text":
        raise ValueError(f"{name} is {kind!r}, but a flow decides on the form of its answer")


def call_id(run_id: str, question: str) -> str:
    """Return a function call's id for a question: ``RUN/QUESTION``."""
    return f"{run_id}{CALL_SEPARATOR}{question}"


def outputs_of(items: str | Sequence[Mapping[str, Any]]) -> tuple[list[PersonsOutput], bool]:
    """Return the answers to questions of runs among the new items of a request.

    The new items are those after the last item of the assistant. Outputs of function calls that no
    run made are ignored.

    Returns:
        The answers, and whether the last item is something else than an output. If the last item is
        an output, there is exactly one answer.

    Raises:
        InvalidInput: The last item is an output, but the new items are not the answer to exactly
            one question.
    """
    new = [] if isinstance(items, str) else _new_items(items)
    called = [call for item in new if (call := _output_of(item)) is not None]
    outputs = [
        PersonsOutput(run_id, question, _text_of(output))
        for run_id, separator, question, output in called
        if separator
    ]
    if not called or _output_of(new[-1]) is None:
        return outputs, True
    run_id, separator, question, output = called[-1]
    if not separator:
        raise InvalidInput(
            f"call {question!r} was made by no run; expected the call_id of a run's question"
        )
    if output is None:
        raise InvalidInput(
            f"call {call_id(run_id, question)} has no output; expected the person's answer"
        )
    if len(called) > 1:
        raise InvalidInput(
            f"a run asks one question at a time; expected one output, got {len(called)}, the last "
            f"that of call {call_id(run_id, question)}"
        )
    if any(item.get("role") in MESSAGE_ROLES for item in new):
        raise message_beside(outputs[0])
    return outputs, False


def message_beside(output: PersonsOutput) -> InvalidInput:
    """Return the error for an answer beside a message.

    A request must not both answer a question and bring a new message.
    """
    return InvalidInput(
        f"the request answers question {output.question} of run {output.run_id}, and has a message "
        "beside the answer, which the run would not get. Send the answer alone, and the message "
        "when the run has ended"
    )


def _output_of(item: Mapping[str, Any]) -> tuple[str, str, str, Any] | None:
    """Return a function call's id and output from an item.

    Returns:
        The run's id, the separator, the question's id, and the output. Run and separator are '' if
        no run made the call. None if the item is not the output of a call.
    """
    if item.get("role") == "tool":
        called, output = item.get("tool_call_id"), item.get("content")
    elif item.get("type") == "function_call_output":
        called, output = item.get("call_id"), item.get("output")
    else:
        return None
    return *str(called).rpartition(CALL_SEPARATOR), output


def read_output(text: str) -> Any:
    """Return the JSON value of an answer. If the text is not strict JSON, return the text itself.

    The text is also returned if a run cannot store its JSON value.
    """
    try:
        return storable(read(text.encode()), "the answer")
    except (HTTPException, UnstorableValue):
        return text


def _new_items(items: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Return the items after the assistant's last item."""
    last = max((number for number, item in enumerate(items, 1) if _is_assistants(item)), default=0)
    return items[last:]


def _is_assistants(item: Mapping[str, Any]) -> bool:
    """Return whether an item comes from the assistant.

    Such an item is a message, reasoning, a call, or a reference to one of these.
    """
    kind = str(item.get("type"))
    return item.get("role") == "assistant" or kind in ASSISTANT_ITEMS or kind.endswith("_call")


def goal_of(
    items: str | Sequence[Mapping[str, Any]],
    instructions: str | None = None,
    earlier: tuple[str, str] | None = None,
) -> str:
    """Return the goal of a run from a conversation.

    If the conversation is a single message of a user, the goal is this message. Otherwise the goal
    is the text of all items, each with its role before it.

    Args:
        items: The new items of the conversation, or the text of a user.
        instructions: A system message, which comes first. None or '': none.
        earlier: Goal and answer of the run from which the conversation continues. They come before
            ``items``. A goal that is a conversation keeps its roles. None: the conversation is new.

    Raises:
        InvalidInput: A new conversation has no message of a user, or an item has an unknown type.
        UnsupportedPart: A message has a part that is neither a text nor a user's file.
    """
    said: list[tuple[str, str]] = [("system", instructions)] if instructions else []
    if isinstance(items, str):
        said.append(("user", items))
    else:
        said += [turn for item in items if (turn := _turn_of(item)) is not None]
    if earlier is None and not any(role == "user" for role, _ in said):
        raise InvalidInput("there is no message of a user; expected at least one")
    if len(said) == 1 and earlier is None:
        return said[0][1]
    turns = [f"{role}: {text}" for role, text in said]
    if earlier is not None:
        goal, answer = earlier
        before = goal if CONVERSATION.match(goal) else f"user: {goal}"
        system = [turns.pop(0)] if instructions else []
        if system and before.startswith(f"{system[0]}\n\n"):
            system = []  # A client repeats its instructions with each turn.
        turns = [*system, before, f"assistant: {answer}", *turns]
    return "\n\n".join(turns)


def _turn_of(item: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return a conversation item's role and text.

    Returns:
        None for reasoning and for a reference to an item: they are no part of a goal.

    Raises:
        InvalidInput: The item has an unknown type or role.
        UnsupportedPart: The item has a part that is neither a text nor a user's file.
    """
    kind = item.get("type", "message")
    if kind in ("reasoning", "item_reference"):
        return None
    if kind == "function_call":
        return "assistant", f"{item.get('name')}({item.get('arguments')})"
    if kind == "function_call_output":
        return "tool", _text_of(item.get("output"))
    role = item.get("role")
    if kind != "message" or role not in ("user", "assistant", "system", "developer", "tool"):
        raise InvalidInput(
            f"an item of type {str(kind)[:60]!r} and role {str(role)[:60]!r} cannot be part of a "
            "goal; expected messages of text"
        )
    text = _text_of(item.get("content"), role == "user")
    for call in item.get("tool_calls") or ():
        function = call.get("function", {}) if isinstance(call, Mapping) else {}
        text += f"{function.get('name')}({function.get('arguments')})"
    return role, text


def _text_of(content: Any, may_have_files: bool = False) -> str:
    """Return the text of a message's content.

    Args:
        may_have_files: Whether parts with files are skipped (``files_in`` reads them). If not, such
            a part is an error.

    Raises:
        UnsupportedPart: The content has a part that is no text and is not skipped.
    """
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        return json.dumps(content, ensure_ascii=False)
    texts = []
    for part in content:
        kind = part.get("type") if isinstance(part, Mapping) else None
        if may_have_files and kind in FILE_PARTS:
            continue
        if kind not in ("text", "input_text", "output_text"):
            raise UnsupportedPart(
                f"a message has a part of type {kind!r}, but a goal is a text with the files of "
                "its users; pass other data in inputs"
            )
        texts.append(str(part.get("text", "")))
    return "".join(texts)
