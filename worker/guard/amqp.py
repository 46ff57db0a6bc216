"""The guard where the broker is RabbitMQ.

kombu's transport ``pyamqp`` with a look at each message that reaches a consumer of our queues: what is not exactly a
round's message is acknowledged there, so that the broker forgets it, and put aside. A message whose properties cannot
be read at all would end the connection, and come back for ever; it is read as one without properties.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from amqp import Message
from amqp.method_framing import frame_handler
from kombu.transport import pyamqp

from worker.guard.sifting import Malformed, judge
from worker.store.keys import Keys

logger = logging.getLogger("holdfast.guard")

#: Properties with a meaning for Celery or for people; another is taken off.
PROPERTIES = ("content_type", "content_encoding", "delivery_mode", "priority", "correlation_id", "reply_to")
#: The kind of frame that carries a message's properties; its first bytes tell the class and the length of the body.
HEADER, FIXED = 2, 12


class Channel(pyamqp.Channel):  # type: ignore[misc]
    """kombu's channel with the guard at its consuming end."""

    def basic_consume(self, queue: str = "", *args: Any, callback: Callable[[Any], None] | None = None, **options: Any) -> Any:
        """Consume; a queue of the app's own is its own business."""
        prefix = self._option("guard_prefix") or "holdfast"
        if callback is not None and Keys(prefix).is_of_rounds(queue):
            callback = partial(self._sifted, queue, callback, bool(options.get("no_ack")))
        return super().basic_consume(queue, *args, callback=callback, **options)

    def _sifted(self, queue: str, callback: Callable[[Any], None], no_ack: bool, message: Any) -> None:
        properties = message.properties
        try:
            headers = judge(
                properties.get("content_type"), properties.get("content_encoding"), properties.get("application_headers"), message.body
            )
        except Malformed as error:
            logger.error("a message on %s was refused and put aside: %s", queue, error)
            self._put_aside(queue, message.body, str(error))
            if not no_ack:
                self.basic_ack(message.delivery_tag)
            return
        message.properties = {name: properties[name] for name in PROPERTIES if name in properties} | {"application_headers": headers}
        callback(message)

    def _put_aside(self, queue: str, body: Any, why: str) -> None:
        put_aside = self._option("guard_letters")
        if put_aside is None:
            return
        try:
            put_aside(queue, body if isinstance(body, str) else bytes(body), why)
        except Exception as error:
            # A server that is away or full takes no letter, nor does a key that holds something else; no message may end the worker for it.
            logger.error("it could not be put aside, and is gone: %s: %s", type(error).__name__, error)

    def _option(self, name: str) -> Any:
        return (self.connection.client.transport_options or {}).get(name)


def readable(connection: Any, callback: Callable[..., None]) -> Callable[[Any], Any]:
    """py-amqp's handler of frames; properties that it cannot read are as none."""
    handle = frame_handler(connection, callback)

    def on_frame(frame: tuple[int, int, Any]) -> Any:
        kind, channel, content = frame
        if kind == HEADER:
            try:
                Message().inbound_header(content)
            except Exception as error:
                # Anything can be wrong in what a stranger wrote: a year 50,000, a table a thousand deep, half a letter.
                logger.error("a message came with properties that cannot be read: %s: %s", type(error).__name__, error)
                content = bytes(content[:FIXED]) + b"\0\0"
        return handle((kind, channel, content))

    return on_frame


class Connection(pyamqp.Connection):  # type: ignore[misc]
    """kombu's connection with channels that are guarded."""

    Channel = Channel

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, frame_handler=readable, **options)


class Transport(pyamqp.Transport):  # type: ignore[misc]
    """``pyamqp`` with the guard.

    Transport options: ``guard_prefix``, whose queues are ours (``holdfast``); ``guard_letters``, called with the queue, the body
    and the reason for each message refused, as ``DeadLetters.put_aside`` is; without it they are only logged.
    """

    Connection = Connection
