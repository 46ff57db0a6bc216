"""The guard: messages that could harm a worker never reach it; they go to a bounded dead-letter list.

One kombu transport for each kind of broker: ``worker.guard:Transport`` for Redis, ``worker.guard.sentinel:Transport`` for a Redis that
Sentinels watch over, ``worker.guard.amqp:Transport`` for RabbitMQ.
"""

from worker.guard.redis import Channel, Transport
from worker.guard.sifting import Malformed, judge

__all__ = ["Channel", "Malformed", "Transport", "judge"]
