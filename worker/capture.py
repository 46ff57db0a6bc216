"""A kombu transport that sends nothing: it keeps the message that Celery built, for the commit script to push.

Routing, headers, serializer and publish signals all still apply; only the last step, ``Channel._put`` (the hook that
kombu documents for virtual transports), keeps the message instead of writing it.
"""

from __future__ import annotations

import threading
from typing import Any

from kombu.transport import virtual
from kombu.utils.json import dumps


class Captured(threading.local):
    """The last message built in this thread: the list it is for, and its text as kombu's Redis transport writes it."""

    queue: str = ""
    text: str = ""

    def clear(self) -> None:
        self.queue = self.text = ""

    def take(self) -> tuple[str, str]:
        """The list and the text of the message built since ``clear``; empty where none was."""
        return self.queue, self.text


captured = Captured()


class Channel(virtual.Channel):  # type: ignore[misc]
    """A channel whose only effect is ``captured``."""

    do_restore = False

    def _put(self, queue: str, message: dict[str, Any], **options: Any) -> None:
        captured.queue, captured.text = queue, dumps(message)

    def _get(self, queue: str, timeout: float | None = None) -> Any:
        raise NotImplementedError("the capturing transport only builds messages; consume from the real broker")

    def _size(self, queue: str) -> int:
        return 0

    def _purge(self, queue: str) -> int:
        return 0


class Transport(virtual.Transport):  # type: ignore[misc]
    """See the module."""

    Channel = Channel
    driver_type = "capture"
    driver_name = "capture"

    def driver_version(self) -> str:
        return "1"
