"""A conversation: the messages of a thread, whose runs follow one another."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from perdure.flows.core.json_values import canonical

#: The artifact with the messages of the runs before a run.
ARTIFACT = "conversation"
#: The artifact with messages of people to a run while its agent worked.
HEARD = "heard"
#: The name in a run's output for the text of its answer (``text=`` of a flow).
ANSWER_TEXT = "answer_text"
#: Maximum number of messages, and of their characters, that a run gets from earlier runs of its
#: thread. The newest are kept.
MOST_MESSAGES, MOST_CHARACTERS = 100, 60_000


@dataclass(frozen=True, slots=True)
class ThreadMessage:
    """One message of a thread.

    Attributes:
        role: ``user``: a message to the thread. ``assistant``: the answer of a run, or why it ended
            without one.
        text: an answer that is no text is JSON.
        run_id: the run that was started with the message, read it, or gave it.
    """

    role: Literal["user", "assistant"]
    text: str
    run_id: str


def newest_of(messages: Sequence[ThreadMessage]) -> list[ThreadMessage]:
    """Return a thread's newest messages, oldest first.

    They are limited by ``MOST_MESSAGES`` and ``MOST_CHARACTERS``. The first message is a user's:
    older messages of the assistant at the beginning are dropped.
    """
    kept: list[ThreadMessage] = []
    size = 0
    for message in reversed(messages[-MOST_MESSAGES:]):
        size += len(message.text)
        if kept and size > MOST_CHARACTERS:
            break
        kept.append(message)
    while kept and kept[-1].role != "user":
        kept.pop()
    return kept[::-1]


def packed(messages: Iterable[ThreadMessage]) -> str:
    """Return messages as the text of an artifact. ``unpacked`` reads it."""
    return canonical([asdict(message) for message in messages])


def unpacked(text: str) -> list[ThreadMessage]:
    """Return the messages in ``text``, the content of an artifact that ``packed`` wrote."""
    return [ThreadMessage(**each) for each in json.loads(text)]


def text_of(answer: Any, output: Mapping[str, Any] = MappingProxyType({})) -> str:
    """Return an answer as the text of a message: its ``spoken_text``, or else its JSON."""
    text = spoken_text(answer, output)
    return canonical(answer) if text is None else text


def spoken_text(answer: Any, output: Mapping[str, Any] = MappingProxyType({})) -> str | None:
    """Return the text of an answer for people.

    If the answer is a text, it is returned unchanged. If the answer has LangChain messages, the
    last text of the model is returned.

    Args:
        output: the output of the run. If the flow made a text of the answer (``text=``), that is
            returned.

    Returns:
        None if the answer has only data.
    """
    if answer is not None and isinstance(text := output.get(ANSWER_TEXT), str):
        return text
    if isinstance(answer, str):
        return answer
    found = answer.get("messages") if isinstance(answer, Mapping) else None
    messages: list[Any] = found if isinstance(found, list) else []
    for message in reversed(messages):
        is_of_model = isinstance(message, Mapping) and message.get("type") == "ai"
        if is_of_model and (text := _content_text(message.get("content"))):
            return text
    return None


def _content_text(content: Any) -> str:
    """Return the text of a message's content. The content may be a list of blocks."""
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else ()
    texts = (
        each if isinstance(each, str) else each.get("text")
        for each in blocks
        if isinstance(each, str) or (isinstance(each, Mapping) and each.get("type") == "text")
    )
    return "".join(each for each in texts if isinstance(each, str))


def _nothing() -> list[ThreadMessage]:
    return []


def _no_artifact(name: str) -> tuple[str, str] | None:
    return None


@dataclass(eq=False)
class Earlier:
    """The earlier runs in a run's thread. An instance without arguments stands for no earlier runs.

    Attributes:
        read: returns the messages of the earlier runs, oldest first.
        artifacts: texts by name that the round's commit stores. The messages become one of them
            when they are read for the first time.
        is_thread: whether a later run may follow this one in a thread.
        last_artifact: returns the id of the last completed run of this flow, and one of that run's
            artifacts by name. None if there is no such run, or if it has no such artifact.
    """

    read: Callable[[], list[ThreadMessage]] = _nothing
    artifacts: Mapping[str, str] = field(default_factory=dict)
    is_thread: bool = False
    last_artifact: Callable[[str], tuple[str, str] | None] = _no_artifact

    def keep(self, name: str, text: str) -> None:
        """Add an artifact to the commit of the round."""
        self.artifacts = {**self.artifacts, name: text}


#: For a run that begins a conversation, or belongs to none.
NOTHING_EARLIER = Earlier()
