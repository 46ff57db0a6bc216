"""A LangGraph graph in a thread: its state continues from one run of the thread to the next.

A run that completes stores the state of its graph. The next run of the thread begins with it, as
the library does with a checkpointer and one ``thread_id``.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from pydantic_core import to_jsonable_python

from perdure.flows.adapters.graph_saver import RunSaver
from perdure.flows.adapters.graph_start import packed, unpacked
from perdure.flows.adapters.prompts import pieces_of
from perdure.flows.core.errors import FatalError, InvalidInput, UnstorableValue
from perdure.flows.core.files import File
from perdure.flows.core.json_values import canonical, storable
from perdure.flows.core.outcomes import ASK, Turn
from perdure.flows.core.thread_messages import ThreadMessage, text_of
from perdure.flows.rounds.context import RoundContext
from perdure.flows.rounds.messages_to_run import after_replies, open_asks
from perdure.flows.rounds.waits import ReceivedSignal

#: The artifact with the state of a completed run.
STATE = "thread-state"
#: Maximum characters of the artifact. A state may hold a picture, as a file of a submission.
MOST_CHARACTERS = 8 * 1024 * 1024
#: The keys of the input that get earlier messages, and references to files.
MESSAGES, FILES = "messages", "files"


def state_artifacts(saver: RunSaver, context: RoundContext) -> dict[str, str]:
    """Return the state for the thread's next run, as an artifact by name.

    Call it after ``saver.commit``. The dict is empty without a thread, or if the state is too long.
    """
    if not context.earlier.is_thread:
        return {}
    text = packed(saver.namespaces)
    if len(text) > MOST_CHARACTERS:
        context.tell(
            thread_as_text=f"the state takes {len(text)} characters; the limit is "
            f"{MOST_CHARACTERS}. The next run of the thread gets messages only"
        )
        return {}
    return {STATE: text}


def take_state(saver: RunSaver, context: RoundContext) -> list[ThreadMessage]:
    """Begin with the state of the thread's last completed run of this flow, if there is one.

    If that state does not fit the graph, the run begins without it, and an event reports why.

    Returns:
        The messages of the thread that are not part of the state. Without a state, all messages.
    """
    messages = context.conversation
    found = context.earlier.last_artifact(STATE) if messages else None
    if found is None:
        return messages
    run_id, text = found
    try:
        saver.begin_with(unpacked(text, run_id))
    except (InvalidInput, UnstorableValue) as error:
        context.tell(thread_as_text=f"the state of run {run_id} does not fit the graph: {error}")
        return messages
    ends = [
        place
        for place, each in enumerate(messages)
        if (each.run_id, each.role) == (run_id, "assistant")
    ]
    return messages[ends[-1] + 1 :] if ends else messages


def add_messages(
    given: dict[str, Any],
    keys: Collection[str],
    messages: Sequence[ThreadMessage],
    context: RoundContext,
) -> None:
    """Add earlier messages of the thread to a graph's input.

    If the input of the graph has no key ``messages``, they are left out, and an event reports it.
    """
    if not messages:
        return
    if MESSAGES in keys:
        before = [
            HumanMessage(each.text) if each.role == "user" else AIMessage(each.text)
            for each in messages
            if each.text
        ]
        own = given.get(MESSAGES, [])
        given[MESSAGES] = [*before, *(own if isinstance(own, list) else [own])]
        return
    context.tell(
        thread_left_out=f"{len(messages)} earlier messages: the graph has no key {MESSAGES!r}"
    )


def message_of(text: str, context: RoundContext) -> BaseMessage:
    """Return a person's message with the submitted files below its text."""
    if not context.files:
        return HumanMessage(text)
    blocks: list[Any] = [_block(each) for each in pieces_of(text, context.files, context)]
    return HumanMessage(blocks)


def _block(piece: str | File) -> dict[str, str]:
    if isinstance(piece, str):
        return {"type": "text", "text": piece}
    data = base64.b64encode(piece.content).decode()
    kind = "image" if piece.media_type.startswith("image/") else "file"
    named = {} if kind == "image" else {"filename": piece.name}
    return {"type": kind, "base64": data, "mime_type": piece.media_type, **named}


def check_files(keys: Collection[str], context: RoundContext) -> None:
    """Raise FatalError if the input has no key for submitted files.

    The input is that of the graph, with these keys. Without submitted files, do nothing."""
    if context.files and MESSAGES not in keys and FILES not in keys:
        names = ", ".join(each.name for each in context.files)
        raise FatalError(
            f"run {context.run_id}, step {context.step}: files were submitted ({names}), and the "
            f"input of the graph has no place for them. Give its state the key {MESSAGES!r}, which "
            f"gets them as content blocks, or {FILES!r}, which gets references"
        )


def words_of(turns: Sequence[Turn]) -> list[BaseMessage]:
    """Return the new messages of people in the library's form."""
    return [HumanMessage(text_of(turn.said)) for turn in turns]


def words_in(values: Iterable[Any]) -> list[str]:
    """Return the texts and tool calls of model messages."""
    words: list[str] = []
    for value in values:
        for message in value if isinstance(value, list) else [value]:
            if isinstance(message, AIMessage):
                calls = [f"{call['name']} {_as_json(call['args'])}" for call in message.tool_calls]
                words += [each for each in (str(message.text), *calls) if each]
    return words


def _as_json(args: Any) -> str:
    return canonical(to_jsonable_python(args, fallback=repr))


def replies_to_asks(answer: Any, context: RoundContext) -> dict[str, Any]:
    """Reply to the open questions to this run with the graph's answer.

    Returns:
        The run's values that change with the replies.
    """
    for number in open_asks(context):
        context.reply(ReceivedSignal(ASK, number), text_of(answer))
    return after_replies(context)


def answer_of(output: Any) -> Any:
    """Return a graph's output as JSON data, without the bytes of files: the answer of the run.

    Raises:
        UnstorableValue: the output has a value that JSON cannot hold.
    """
    plain = _without_bytes(to_jsonable_python(output, fallback=str))
    return storable(plain, "the graph's output")


def _without_bytes(value: Any) -> Any:
    """Return JSON data without the contents of files. Their sizes replace them.

    So an answer does not contain the pictures and documents of messages.
    """
    if isinstance(value, list):
        return [_without_bytes(each) for each in value]
    if not isinstance(value, dict):
        return value
    data = value.get("base64")
    if isinstance(data, str) and isinstance(value.get("mime_type"), str):
        others = {name: each for name, each in value.items() if name != "base64"}
        return {**others, "bytes": len(data) * 3 // 4 - data[-2:].count("=")}
    return {name: _without_bytes(each) for name, each in value.items()}
