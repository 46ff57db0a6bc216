"""The validating transport for Redis.

It is kombu's ``redis``, but redis-py's response callback for BRPOP validates each popped message
before kombu reads it. An invalid message is stored as a dead letter. Its run only waits until the
sweep publishes the stored message again.
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
    """kombu's QoS, which returns unacknowledged messages to their lists at a warm shutdown.

    If the server does not answer, the messages are dropped, and a sweep publishes them again.
    """

    _missed = -math.inf

    def dropped(self, messages: int) -> None:
        """Log how many messages a sweep has to publish again."""
        logger.warning(
            "%d messages could not be returned to their queue; a sweep sends them again", messages
        )

    def answers(self) -> bool:
        """Return whether the broker's Redis server answers PING now.

        If it did not answer, it counts as away for ``COUNTS_AS_AWAY`` seconds, and no PING is sent.
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
    """Mixin for kombu's Redis channels, plain or Sentinel, that validates popped messages.

    Only messages of the queues for Perdure's rounds are validated. An invalid message is logged,
    stored as a dead letter, and not delivered.
    """

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
        """Decode the body of a message.

        If this process built the message and delivers it to itself, the body is decoded already,
        and is returned unchanged.
        """
        return body if isinstance(body, bytes) else super().decode_body(body, encoding)

    def is_own(self, queue: str) -> bool:
        """Return whether a queue is for Perdure's rounds.

        Perdure pushes all messages of such a queue to the queue's list.
        """
        return Keys(self.guard_prefix).is_of_rounds(queue)

    def popped(self, reply: Any) -> Any:
        """Validate the message in a reply of BRPOP, and return the reply for kombu.

        A message of a queue that is not for rounds is not validated.

        Returns:
            None if the reply has no message, or an invalid message. An invalid message is stored as
            a dead letter.
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
        """Log an invalid message, and store it as a dead letter.

        If it cannot be stored, this is logged, and the message is lost.
        """
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
    """kombu's Redis channel, but messages of rounds are validated before kombu reads them."""

    from_transport_options = (*kombu_redis.Channel.from_transport_options, *OPTIONS)


class RedisTransport(kombu_redis.Transport):  # type: ignore[misc]
    """kombu's ``redis`` transport, but with validation."""

    Channel = RedisChannel
