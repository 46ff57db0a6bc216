"""Entry: one message of the corpus, and its expected fate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.corpus.form import Form

#: The transports an entry can be sent over: lists of a Redis, queues of RabbitMQ.
LIST, AMQP = "list", "amqp"
BOTH = frozenset({LIST, AMQP})


@dataclass(frozen=True)
class Entry:
    """One message of the corpus.

    Attributes:
        make: it, from a good one of no run in particular.
        why: a regular expression for a part of the stated reason; None if the message is let
            through.
        on: the transports that can carry it.
    """

    make: Callable[[Form], Form]
    why: str | None = None
    on: frozenset[str] = BOTH
