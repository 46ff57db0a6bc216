"""Operations on threads, which are sequences of runs.

A thread's live run holds the topic ``thread:NAME``.
"""

from __future__ import annotations

from typing import Any

from perdure.flows.core.thread_messages import ThreadMessage
from perdure.worker.domain.token import Scope
from perdure.worker.operations import validation
from perdure.worker.operations.operation import Http, Owner, operation
from perdure.worker.operations.session import Session


def topic_of(thread: str, owner: str | None = None) -> str:
    """Return the topic that a thread's live run holds.

    Args:
        owner: the caller over HTTP who owns the thread. None: the thread has no owner.

    Raises:
        InvalidInput: the name of the thread is not valid.
    """
    validation.thread(thread)
    return f"thread:{thread}" if owner is None else f"{owner}/thread:{thread}"


def _decode_messages(data: Any) -> list[ThreadMessage]:
    return [ThreadMessage(**each) for each in data]


@operation(
    Http("GET", "/threads/{thread}/messages"),
    scope=Scope.READ,
    owner=Owner.NONE,
    decode=_decode_messages,
)
def conversation(session: Session, thread: str) -> list[ThreadMessage]:
    """Return a thread's messages and answers, oldest first.

    The messages come from the thread's newest 100 runs. They begin after the newest run that
    was deleted or has expired. For a thread without messages, the list is empty.
    """
    return messages_of(session, topic_of(thread))


def messages_of(session: Session, topic: str) -> list[ThreadMessage]:
    """Return the messages and answers of the thread with this topic, oldest first."""
    from perdure.worker.store.thread_messages import thread_messages  # Few commands read threads.

    return thread_messages(session.store, session.store.signals.newest_of_topic(topic))
