"""The guard where the broker is Redis.

A kombu transport like ``redis``, but for one public hook: redis-py's response callback for BRPOP looks at each popped
message before kombu does. What is not exactly a round's message is dropped there (the run's hash and due set are the
truth, so a dropped message costs a run nothing but the time until it is sent again).
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

from worker.guard.shape import Shapes
from worker.guard.sifting import Malformed
from worker.store.keys import Keys
from worker.store.reaching import answers

logger = logging.getLogger("holdfast.guard")


#: Seconds in which a server has to answer before messages are given back to it, and for which it counts as away where it did not.
ANSWERS_WITHIN, COUNTS_AS_AWAY = 1.0, 30.0


class QoS(virtual.QoS):  # type: ignore[misc]
    """Gives popped messages back at a warm shutdown. What cannot go back is let go, where kombu would dump it into a file.

    kombu would wait for each of them for as long as the server is silent, and the worker would not leave.
    """

    _missed = -math.inf

    def restore_unacked(self) -> list[Any]:
        self._flush()
        if not self._delivered:
            return []
        if self._answers():
            unrestored = len(super().restore_unacked())
        else:
            unrestored = len(self._delivered)
            self._delivered.clear()
        if unrestored:
            logger.warning("%d messages could not be given back; the sweep of any worker sends them again", unrestored)
        return []

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        super().reject(delivery_tag, requeue and self._answers())

    def _answers(self) -> bool:
        """Whether the server is there at this moment."""
        if time.monotonic() - self._missed < COUNTS_AS_AWAY:
            return False
        there = answers(self.channel.pool.make_connection(), ANSWERS_WITHIN)
        if not there:
            self._missed = time.monotonic()
        return there


class Received(virtual.Message):  # type: ignore[misc]
    """A message; one whose shape the guard knows (``worker.guard.shape``) comes with its body read."""

    def __init__(self, payload: Any, channel: Any = None, **options: Any) -> None:
        super().__init__(payload, channel=channel, **options)
        self._decoded_cache = payload.get("content")


#: The options of the guard's own.
OPTIONS = ("guard_prefix", "guard_letters")


if TYPE_CHECKING:  # what it is mixed into is one of kombu's channels
    from kombu.transport.redis import Channel as KombuChannel
else:
    KombuChannel = object


class Guarded(KombuChannel):  # type: ignore[misc]
    """What the guard puts over a Redis channel of kombu's, plain or Sentinel's."""

    Message = Received
    guard_prefix = "holdfast"
    #: Where letters go: called with the queue, the message and the reason.
    guard_letters: Callable[[str, str | bytes, str], None] | None = None
    #: The queues that the BRPOP which waits names.
    _waits_for: frozenset[str] = frozenset()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._shapes = Shapes()
        if not self.ack_emulation:
            self.QoS = QoS

    @cached_property  # type: ignore[untyped-decorator]
    def client(self) -> Any:
        """The client that pops messages; each answer of BRPOP is sifted."""
        client = self._create_client(asynchronous=True)
        client.set_response_callback("BRPOP", self._sifted)
        return client

    def decode_body(self, body: Any, encoding: str | None = None) -> Any:
        """As kombu, but for a body that is decoded already: that of a message which this process made (``worker.template``)."""
        return body if isinstance(body, bytes) else super().decode_body(body, encoding)

    def _sifted(self, answer: Any, **_: Any) -> Any:
        if not answer:
            return None
        queue, text = answer
        name = queue.decode("utf-8", "replace") if isinstance(queue, bytes) else str(queue)
        round_queue = name.rsplit(self.sep, 1)[0]
        if not Keys(self.guard_prefix).is_of_rounds(round_queue):
            return answer  # a queue of the app's own is its own business
        try:
            return [queue, json.dumps(self._shapes.sifted(text, round_queue))]
        except Malformed as error:
            self.put_aside(name, text, error)
            return None

    def put_aside(self, queue: str, text: str | bytes, why: Malformed) -> None:
        """A message that is not passed on."""
        logger.error("a message on %s was refused and put aside: %s", queue, why)
        if self.guard_letters is None:
            return
        try:
            self.guard_letters(queue, text, str(why))
        except Exception as error:
            # A full server takes no letter, nor does a key that holds something else; no message may end the worker for it.
            logger.error("it could not be put aside, and is gone: %s: %s", type(error).__name__, error)

    def _brpop_start(self, timeout: float | None = None) -> None:
        self._waits_for = frozenset(self.active_queues)
        super()._brpop_start(timeout)

    def _basic_cancel(self, consumer_tag: str) -> Any:
        """Who consumes nothing any more pops no rounds either.

        kombu lets the BRPOP that waits go on. What it gets meanwhile would lie with a worker that leaves until its last round is over.
        Should a round's message be on its way to us in the very moment in which the connection is closed, the sweep sends it again; nobody
        would do that for a message of the app's own, so where its queues are popped as well, kombu's way is left alone.
        """
        answer = super()._basic_cancel(consumer_tag)
        popping = self._in_poll
        if popping and not self.active_queues and all(map(Keys(self.guard_prefix).is_of_rounds, self._waits_for)):
            if popping.is_connected and popping.can_read():
                with suppress(Empty):
                    self._brpop_read()  # there is nobody to take it, so kombu puts it back
            else:
                popping.disconnect()
        return answer

    def _size(self, queue: str) -> int:
        """How many messages wait. One plain command, where kombu asks in a transaction: a full server refuses those."""
        with self.conn_or_acquire() as client:
            return int(client.llen(queue))

    def _queue_bind(self, exchange: str, routing_key: str, pattern: str, queue: str) -> None:
        """Rounds are pushed to their list, not routed through a binding: none is written for them (a full server would refuse)."""
        if not Keys(self.guard_prefix).is_of_rounds(queue):
            super()._queue_bind(exchange, routing_key, pattern, queue)


class Channel(Guarded, kombu_redis.Channel):  # type: ignore[misc]
    """kombu's Redis channel with the guard at its consuming end."""

    from_transport_options = (*kombu_redis.Channel.from_transport_options, *OPTIONS)


class Transport(kombu_redis.Transport):  # type: ignore[misc]
    """``redis`` with the guard."""

    Channel = Channel
