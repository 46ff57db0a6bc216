"""The validating transport for Redis.

It is kombu's ``redis``, but redis-py's response callback for BRPOP validates each popped message
before kombu reads it. An invalid message is dropped. That costs its run only the time until the
sweep sends the stored message again.
"""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Callable
from typing import Any

from kombu.transport import redis as kombu_redis

from perdure.worker.messaging.message import InvalidMessage, Validator, validate
from perdure.worker.private_parts.messages import DecodedMessage
from perdure.worker.private_parts.redis_channel import HookedChannel, ReturningQoS
from perdure.worker.store.keys import Keys
from perdure.worker.store.sentinel import answers as is_answering

logger = logging.getLogger("perdure.guard")


#: Seconds that the server has to reply before messages are returned to it, and seconds for which it
#: counts as away if it did not reply.
ANSWERS_WITHIN, COUNTS_AS_AWAY = 1.0, 30.0


class QoS(ReturningQoS):
    """Returns popped messages to their list at a warm shutdown, unless the server is silent."""

    _missed = -math.inf

    def dropped(self, messages: int) -> None:
        """Log how many messages a sweep has to send again."""
        logger.warning(
            "%d messages could not be returned to their queue; a sweep sends them again", messages
        )

    def answers(self) -> bool:
        """Return whether the broker's Redis server replies now.

        After a missing reply it counts as away for a while.
        """
        if time.monotonic() - self._missed < COUNTS_AS_AWAY:
            return False
        there = is_answering(self.channel.pool.make_connection(), ANSWERS_WITHIN)
        if not there:
            self._missed = time.monotonic()
        return there


#: Perdure's own transport options.
OPTIONS = ("guard_prefix", "guard_letters", "guard_validate")


class ValidatingChannel(HookedChannel):
    """Mixin that adds validation to a Redis channel of kombu's, plain or Sentinel's."""

    Message = DecodedMessage
    guard_prefix = "perdure"
    #: Called with the queue, the message and the reason of each refused message.
    guard_letters: Callable[[str, str | bytes, str], None] | None = None
    #: Validates a message. The fast path brings another one, with the same result.
    guard_validate: Validator = staticmethod(validate)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not self.ack_emulation:
            self.QoS = QoS

    def decode_body(self, body: Any, encoding: str | None = None) -> Any:
        """Decode a message's body, unless it is decoded already.

        A message that this process built and delivers to itself is decoded already.
        """
        return body if isinstance(body, bytes) else super().decode_body(body, encoding)

    def is_own(self, queue: str) -> bool:
        """Return whether a queue is Perdure's: its messages are rounds, pushed to its list."""
        return Keys(self.guard_prefix).is_of_rounds(queue)

    def popped(self, reply: Any) -> Any:
        """Return a reply of BRPOP, its message validated.

        None if there is no message, or an invalid one, which is put aside.
        """
        if not reply:
            return None
        queue, text = reply
        name = queue.decode("utf-8", "replace") if isinstance(queue, bytes) else str(queue)
        round_queue = name.rsplit(self.sep, 1)[0]
        if not self.is_own(round_queue):
            return reply  # messages of the app's own queues are not validated
        try:
            return [queue, json.dumps(self.guard_validate(text, round_queue))]
        except InvalidMessage as error:
            self.put_aside(name, text, error)
            return None

    def put_aside(self, queue: str, text: str | bytes, why: InvalidMessage) -> None:
        """Log a refused message, and store it as a dead letter."""
        logger.error("a message on %s was refused and put aside: %s", queue, why)
        if self.guard_letters is None:
            return
        try:
            self.guard_letters(queue, text, str(why))
        except Exception as error:
            # A full server stores no dead letter, nor does a key of another type. No message may
            # end the worker.
            logger.error(
                "a refused message on %s could not be put aside and is lost: %s: %s",
                queue,
                type(error).__name__,
                error,
            )


class RedisChannel(ValidatingChannel, kombu_redis.Channel):  # type: ignore[misc]
    """kombu's Redis channel, with validation of consumed messages."""

    from_transport_options = (*kombu_redis.Channel.from_transport_options, *OPTIONS)


class RedisTransport(kombu_redis.Transport):  # type: ignore[misc]
    """kombu's ``redis`` transport, with validation."""

    Channel = RedisChannel
