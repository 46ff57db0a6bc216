"""The validating transport for Redis.

It is kombu's ``redis`` with one public hook: redis-py's response callback for BRPOP validates each
popped message before kombu reads it. An invalid one is dropped. That costs its run only the time
until the sweep sends the message again, as hash and due set are the truth.
"""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Callable
from contextlib import suppress
from queue import Empty
from typing import TYPE_CHECKING, Any

from kombu.transport import redis as kombu_redis
from kombu.transport import virtual
from kombu.utils.objects import cached_property

from perdure.worker.messaging.message import InvalidMessage, Validator, validate
from perdure.worker.store.keys import Keys
from perdure.worker.store.sentinel import answers

logger = logging.getLogger("perdure.guard")


#: Seconds that the server has to reply before messages are returned to it, and seconds for which it
#: counts as away after it did not.
ANSWERS_WITHIN, COUNTS_AS_AWAY = 1.0, 30.0


class QoS(virtual.QoS):  # type: ignore[misc]
    """Returns popped messages to their list at a warm shutdown.

    Messages that cannot be returned are dropped. kombu would wait for each as long as the server is
    silent, so the worker would not shut down. It would write them to a file, too.
    """

    _missed = -math.inf

    def restore_unacked(self) -> list[Any]:
        """Return a worker's unacknowledged messages to their Redis queues.

        Messages that cannot be returned are dropped, and the sweep sends them again. The result is
        always empty, since kombu would write the messages in it to a file.
        """
        self._flush()
        if not self._delivered:
            return []
        if self._answers():
            unrestored = len(super().restore_unacked())
        else:
            unrestored = len(self._delivered)
            self._delivered.clear()
        if unrestored:
            logger.warning(
                "%d messages could not be returned to their queue; a sweep sends them again",
                unrestored,
            )
        return []

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        """Reject a message. It returns to its queue only if the server replies."""
        super().reject(delivery_tag, requeue and self._answers())

    def _answers(self) -> bool:
        """Return whether the broker's Redis server replies now.

        After a missing reply it counts as away for a while.
        """
        if time.monotonic() - self._missed < COUNTS_AS_AWAY:
            return False
        there = answers(self.channel.pool.make_connection(), ANSWERS_WITHIN)
        if not there:
            self._missed = time.monotonic()
        return there


class ReceivedMessage(virtual.Message):  # type: ignore[misc]
    """A message whose body the validator may have decoded."""

    def __init__(self, payload: Any, channel: Any = None, **options: Any) -> None:
        super().__init__(payload, channel=channel, **options)
        self._decoded_cache = payload.get("content")


#: The transport options that are ours.
OPTIONS = ("guard_prefix", "guard_letters", "guard_validate")


if TYPE_CHECKING:  # ValidatingChannel is mixed into one of kombu's channels
    from kombu.transport.redis import Channel as KombuChannel
else:
    KombuChannel = object


class ValidatingChannel(KombuChannel):  # type: ignore[misc]
    """Mixin that validates the messages of a Redis channel.

    The channel is kombu's plain one, or that for Sentinels.
    """

    Message = ReceivedMessage
    guard_prefix = "perdure"
    #: Called with the queue, the message and the reason of each refused message.
    guard_letters: Callable[[str, str | bytes, str], None] | None = None
    #: Validates a message. The fast path brings another one, with the same result.
    guard_validate: Validator = staticmethod(validate)
    #: The queues that the pending BRPOP names.
    _waits_for: frozenset[str] = frozenset()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not self.ack_emulation:
            self.QoS = QoS

    @cached_property  # type: ignore[untyped-decorator]
    def client(self) -> Any:
        """The Redis client that pops and validates messages."""
        client = self._create_client(asynchronous=True)
        client.set_response_callback("BRPOP", self._validated)
        return client

    def decode_body(self, body: Any, encoding: str | None = None) -> Any:
        """Decode a message's body, unless it is decoded already.

        A message that this process built and delivers to itself is decoded already.
        """
        return body if isinstance(body, bytes) else super().decode_body(body, encoding)

    def _validated(self, answer: Any, **_: Any) -> Any:
        if not answer:
            return None
        queue, text = answer
        name = queue.decode("utf-8", "replace") if isinstance(queue, bytes) else str(queue)
        round_queue = name.rsplit(self.sep, 1)[0]
        if not Keys(self.guard_prefix).is_of_rounds(round_queue):
            return answer  # messages of the app's own queues are not validated
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

    def _brpop_start(self, timeout: float | None = None) -> None:
        self._waits_for = frozenset(self.active_queues)
        super()._brpop_start(timeout)

    def _basic_cancel(self, consumer_tag: str) -> Any:
        """Cancel the pending BRPOP when the last consumer stops.

        kombu would leave it pending, and a message popped now would stay with a worker that shuts
        down until its last round is over. If a round's message arrives in the moment in which the
        connection closes, the sweep sends it again. A message of the app's own would be lost, so
        kombu's behaviour is kept if the BRPOP names queues of the app as well.
        """
        answer = super()._basic_cancel(consumer_tag)
        popping = self._in_poll
        if (
            popping
            and not self.active_queues
            and all(map(Keys(self.guard_prefix).is_of_rounds, self._waits_for))
        ):
            if popping.is_connected and popping.can_read():
                with suppress(Empty):
                    self._brpop_read()  # without a consumer kombu puts the message back
            else:
                popping.disconnect()
        return answer

    def _size(self, queue: str) -> int:
        """Return how many messages wait in a Redis queue.

        It is one plain command. kombu would use a transaction, which a full server refuses.
        """
        with self.conn_or_acquire() as client:
            return int(client.llen(queue))

    def _queue_bind(self, exchange: str, routing_key: str, pattern: str, queue: str) -> None:
        """Write kombu's binding, except for a queue of rounds.

        Rounds are pushed to their list, not routed, and a full server would refuse the binding.
        """
        if not Keys(self.guard_prefix).is_of_rounds(queue):
            super()._queue_bind(exchange, routing_key, pattern, queue)


class RedisChannel(ValidatingChannel, kombu_redis.Channel):  # type: ignore[misc]
    """kombu's Redis channel, with validation of consumed messages."""

    from_transport_options = (*kombu_redis.Channel.from_transport_options, *OPTIONS)


class RedisTransport(kombu_redis.Transport):  # type: ignore[misc]
    """``redis`` with validation."""

    Channel = RedisChannel
