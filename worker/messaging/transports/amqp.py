"""The validating transport for RabbitMQ.

It is kombu's ``pyamqp``, but it validates each message that a consumer of Perdure's queues
receives. An invalid message is acknowledged, so that the broker drops it, and stored as a dead
letter.

A message whose properties cannot be parsed would close the connection, and RabbitMQ would redeliver
it for ever. Here, it is read as a message without properties.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from amqp import Message
from amqp.method_framing import frame_handler
from kombu.transport import pyamqp

from perdure.worker.messaging.message import InvalidMessage, judge
from perdure.worker.store.keys import Keys

logger = logging.getLogger("perdure.guard")

#: Properties with a meaning for Celery or for people. Others are removed.
PROPERTIES = (
    "content_type",
    "content_encoding",
    "delivery_mode",
    "priority",
    "correlation_id",
    "reply_to",
)
#: The frame type that carries a message's properties, and the length of its fixed part: class and
#: body size.
HEADER, FIXED = 2, 12


class AmqpChannel(pyamqp.Channel):  # type: ignore[misc]
    """kombu's AMQP channel, but messages of rounds are validated before the consumer gets them."""

    def basic_consume(
        self,
        queue: str = "",
        *args: Any,
        callback: Callable[[Any], None] | None = None,
        **options: Any,
    ) -> Any:
        """Consume a queue, and validate messages of rounds before ``callback``.

        Messages of other queues are not validated.
        """
        prefix = self._option("guard_prefix") or "perdure"
        if callback is not None and Keys(prefix).is_of_rounds(queue):
            callback = partial(self._validate, queue, callback, bool(options.get("no_ack")))
        return super().basic_consume(queue, *args, callback=callback, **options)

    def _validate(
        self, queue: str, callback: Callable[[Any], None], no_ack: bool, message: Any
    ) -> None:
        properties = message.properties
        try:
            headers = judge(
                properties.get("content_type"),
                properties.get("content_encoding"),
                properties.get("application_headers"),
                message.body,
            )
        except InvalidMessage as error:
            logger.error("a message on %s was refused and put aside: %s", queue, error)
            self._put_aside(queue, message.body, str(error))
            if not no_ack:
                self.basic_ack(message.delivery_tag)
            return
        message.properties = {
            name: properties[name] for name in PROPERTIES if name in properties
        } | {"application_headers": headers}
        callback(message)

    def _put_aside(self, queue: str, body: Any, why: str) -> None:
        put_aside = self._option("guard_letters")
        if put_aside is None:
            return
        try:
            put_aside(queue, body if isinstance(body, str) else bytes(body), why)
        except Exception as error:
            # A server that is away or full stores no dead letter, nor does a key of another type.
            logger.error(
                "a refused message on %s could not be put aside and is lost: %s: %s",
                queue,
                type(error).__name__,
                error,
            )

    def _option(self, name: str) -> Any:
        return (self.connection.client.transport_options or {}).get(name)


def readable(connection: Any, callback: Callable[..., None]) -> Callable[[Any], Any]:
    """Return py-amqp's frame handler, changed so that unreadable properties are removed.

    Such a message is logged, and passed on without properties.
    """
    handle = frame_handler(connection, callback)

    def on_frame(frame: tuple[int, int, Any]) -> Any:
        kind, channel, content = frame
        if kind == HEADER:
            try:
                Message().inbound_header(content)
            except Exception as error:
                # Untrusted content can be wrong in any way: a year 50,000, a table a thousand
                # levels deep, a truncated character.
                logger.error(
                    "a message came with properties that cannot be read: %s: %s",
                    type(error).__name__,
                    error,
                )
                content = bytes(content[:FIXED]) + b"\0\0"
        return handle((kind, channel, content))

    return on_frame


class AmqpConnection(pyamqp.Connection):  # type: ignore[misc]
    """kombu's AMQP connection, with channels that validate."""

    Channel = AmqpChannel

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, frame_handler=readable, **options)


class AmqpTransport(pyamqp.Transport):  # type: ignore[misc]
    """kombu's ``pyamqp`` transport, but with validation.

    Transport options:

    - ``guard_prefix``: the prefix of Perdure's queues (default ``perdure``).
    - ``guard_letters``: called with queue, body and reason for each invalid message, like
      ``DeadLetters.put_aside``. Without it, invalid messages are only logged.
    """

    Connection = AmqpConnection
