"""The place of Celery's consumer in a worker that fetches: what is handed on to it waits here until the worker comes for it."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable
from typing import Any

from worker.fetching import Delivery, Fetching


class Consumer:
    """Channel and transport in one, as far as ``Fetching.hand_on`` speaks to them."""

    def __init__(self, fetching: Fetching, lists: Iterable[str]) -> None:
        self._fetching = fetching
        self._callbacks = set(lists)
        self._handed: tuple[dict[str, Any], str, Delivery] | None = None

    @property
    def connection(self) -> Consumer:
        return self

    def _deliver(self, message: dict[str, Any], queue: str) -> None:
        claimed = self._fetching._claimed.get(message["properties"]["delivery_tag"])
        self._handed = message, queue, claimed or Delivery()

    def after(self, delivery: Delivery) -> tuple[str, str, Delivery] | None:
        """The message that the round of ``delivery`` brought, its list, and what is known of it; None where it brought none."""
        self._handed = None
        self._fetching.hand_on(delivery, self)
        if self._handed is None:
            return None
        message, queue, following = self._handed
        body = message["body"]  # decoded where this process made the message
        return json.dumps({"body": b64encode(body).decode() if isinstance(body, bytes) else body}), queue, following
