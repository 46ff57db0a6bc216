"""kombu's Redis channel, with public hooks in place of private methods.

Private parts used: ``redis.Channel._create_client``, ``_brpop_start``, ``_brpop_read``,
``_basic_cancel``, ``_in_poll``, ``_size`` and ``_queue_bind``; ``virtual.QoS._flush`` and
``_delivered``; ``redis.SentinelChannel._sentinel_managed_pool``, ``_connparams``,
``_sentinel_manager`` and ``_async_sentinel_manager``.
"""

from __future__ import annotations

from contextlib import suppress
from queue import Empty
from typing import TYPE_CHECKING, Any

from kombu.transport import redis, virtual
from kombu.utils.objects import cached_property

if TYPE_CHECKING:  # the hooks are mixed into one of kombu's channels
    from kombu.transport.redis import Channel as KombuChannel
else:
    KombuChannel = object


class ReturningQoS(virtual.QoS):  # type: ignore[misc]
    """A QoS of kombu that requeues unacknowledged messages only if the broker replies."""

    def answers(self) -> bool:
        """Return whether the Redis broker replies now."""
        raise NotImplementedError

    def dropped(self, messages: int) -> None:
        """Handle that messages could not be requeued. A subclass may report their number."""

    def restore_unacked(self) -> list[Any]:
        """Requeue a worker's unacknowledged messages. Drop them if the broker does not reply.

        While the broker does not reply, kombu would wait for each message, and then write the
        messages to a file. Here, messages that cannot be requeued are dropped, and ``dropped`` is
        called.

        Returns:
            An empty list, so that kombu writes no file.
        """
        self._flush()
        if not self._delivered:
            return []
        if self.answers():
            lost = len(super().restore_unacked())
        else:
            lost = len(self._delivered)
            self._delivered.clear()
        if lost:
            self.dropped(lost)
        return []

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        """Reject a received message. ``requeue`` is ignored if the Redis broker does not reply."""
        super().reject(delivery_tag, requeue and self.answers())


class HookedChannel(KombuChannel):  # type: ignore[misc]
    """Mixin for kombu's Redis channels, plain or Sentinel, with hooks for private methods.

    A subclass implements ``popped`` and ``is_own``.
    """

    #: The queues that the pending BRPOP names.
    _waits_for: frozenset[str] = frozenset()

    def popped(self, reply: Any) -> Any:
        """Return the BRPOP reply that kombu is to read.

        A subclass may return None in place of a reply, so that kombu sees no message.
        """
        raise NotImplementedError

    def is_own(self, queue: str) -> bool:
        """Return whether a queue is one of Perdure's queues for rounds.

        Perdure itself pushes all messages of such a queue to the Redis list of the queue. kombu
        routes no message to it.
        """
        raise NotImplementedError

    @cached_property  # type: ignore[untyped-decorator]
    def client(self) -> Any:
        """The Redis client that pops messages."""
        client = self._create_client(asynchronous=True)
        client.set_response_callback("BRPOP", lambda reply, **_: self.popped(reply))
        return client

    def _brpop_start(self, timeout: float | None = None) -> None:
        self._waits_for = frozenset(self.active_queues)
        super()._brpop_start(timeout)

    def _basic_cancel(self, consumer_tag: str) -> Any:
        """Stop a consumer. If it was the last one, cancel the pending BRPOP too.

        kombu would leave the BRPOP pending. A worker that shuts down would then keep a message that
        arrives now until its last round is over. If a message of a queue for rounds arrives while
        the connection closes, the sweeper sends it again. A message of another queue would be lost.
        So the BRPOP is left pending if it names another queue as well.
        """
        answer = super()._basic_cancel(consumer_tag)
        popping = self._in_poll
        if popping and not self.active_queues and all(map(self.is_own, self._waits_for)):
            if popping.is_connected and popping.can_read():
                with suppress(Empty):
                    self._brpop_read()  # without a consumer kombu puts the message back
            else:
                popping.disconnect()
        return answer

    def _size(self, queue: str) -> int:
        """Return how many messages wait in a Redis queue.

        This uses one plain command. kombu would use a transaction, which a full server rejects.
        """
        with self.conn_or_acquire() as client:
            return int(client.llen(queue))

    def _queue_bind(self, exchange: str, routing_key: str, pattern: str, queue: str) -> None:
        """Write kombu's binding of a queue to Redis, except for a queue for rounds (``is_own``).

        A full server would reject the write.
        """
        if not self.is_own(queue):
            super()._queue_bind(exchange, routing_key, pattern, queue)


class HookedSentinelChannel(redis.SentinelChannel):  # type: ignore[misc]
    """kombu's Sentinel channel. A subclass creates its Sentinel client and its connection pool."""

    def sentinels(self) -> Any:
        """Return a new client of all Sentinels. kombu closes it."""
        raise NotImplementedError

    def pool_over(self, sentinels: Any, options: dict[str, Any]) -> Any:
        """Return a pool of connections to the master that the Sentinels report.

        Args:
            sentinels: The client of the Sentinels (``sentinels``).
            options: kombu's options for a connection.
        """
        raise NotImplementedError

    def _sentinel_managed_pool(self, asynchronous: bool = False) -> Any:
        options = self._connparams(asynchronous)
        del options["host"], options["port"]  # the first Sentinel's
        sentinels = self.sentinels()
        if asynchronous:  # kombu closes both
            self._async_sentinel_manager = sentinels
        else:
            self._sentinel_manager = sentinels
        return self.pool_over(sentinels, options)
