"""The place of Celery's consumer in a prefetching worker.

A message handed to it waits here until the worker takes it.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable
from typing import Any

from perdure.worker.engine.fast.handoff import FastRounds, Handoff
from perdure.worker.runtime.fast.delivery import Delivery


class Consumer:
    """Channel and transport in one, as ``Delivery`` uses them."""

    def __init__(self, rounds: FastRounds, delivery: Delivery, lists: Iterable[str]) -> None:
        self._rounds = rounds
        self._delivery = delivery
        self._callbacks = set(lists)
        self._handed: tuple[dict[str, Any], str, Handoff] | None = None

    @property
    def connection(self) -> Consumer:
        return self

    def _deliver(self, message: dict[str, Any], queue: str) -> None:
        claimed = self._delivery._claimed.get(message["properties"]["delivery_tag"])
        self._handed = message, queue, claimed or self._rounds.handoff()

    def after(self, handoff: Handoff) -> tuple[str, str, Handoff] | None:
        """Return the message that the round of ``handoff`` brought, its list and its handoff; None
        if it brought none.
        """
        self._handed = None
        self._delivery.deliver_next(handoff, self)
        if self._handed is None:
            return None
        message, queue, following = self._handed
        body = message["body"]  # decoded where this process made the message
        return (
            json.dumps({"body": b64encode(body).decode() if isinstance(body, bytes) else body}),
            queue,
            following,
        )
