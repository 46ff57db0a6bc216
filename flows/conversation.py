"""A conversation: the messages of a thread, whose runs follow one another."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from perdure.flows.json_values import canonical

#: The artifact with the messages of the runs before a run.
ARTIFACT = "conversation"
#: Messages that a run gets of the runs before it, and characters of them. The newest are kept.
MOST_MESSAGES, MOST_CHARACTERS = 100, 60_000


@dataclass(frozen=True, slots=True)
class ThreadMessage:
    """One message of a thread.

    Attributes:
        role: ``user``: what was sent to the thread. ``assistant``: the answer of a run, or why it
            ended without one.
        text: an answer that is no text is JSON.
        run_id: the run that was started with it, heard it, or gave it.
    """

    role: Literal["user", "assistant"]
    text: str
    run_id: str


def newest_of(messages: Sequence[ThreadMessage]) -> list[ThreadMessage]:
    """Return the newest messages that a run gets, oldest first. They begin with one of the user."""
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
    """Return messages as the text of an artifact."""
    return canonical([asdict(message) for message in messages])


def unpacked(text: str) -> list[ThreadMessage]:
    """Return the messages of an artifact."""
    return [ThreadMessage(**each) for each in json.loads(text)]


def text_of(answer: Any) -> str:
    """Return an answer as the text of a message."""
    return answer if isinstance(answer, str) else canonical(answer)


def _nothing() -> list[ThreadMessage]:
    return []


@dataclass(eq=False)
class Earlier:
    """The runs before a run in its thread. This default is for a run that has none.

    Attributes:
        read: returns their messages, oldest first.
        artifacts: what the commit of the round keeps, after they were read the first time.
    """

    read: Callable[[], list[ThreadMessage]] = _nothing
    artifacts: Mapping[str, str] = field(default_factory=dict)


#: Of a run that begins a conversation, or belongs to none.
NOTHING_EARLIER = Earlier()
