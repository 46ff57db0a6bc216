"""kombu transports that validate messages before Celery sees them.

A message that could harm a worker goes to a bounded dead-letter list. There is one transport per
kind of broker, in ``perdure.worker.messaging.transports``:

- ``RedisTransport`` for Redis,
- ``sentinel:SentinelTransport`` for a Redis watched by Sentinels,
- ``amqp:AmqpTransport`` for RabbitMQ.
"""

from perdure.worker.messaging.message import InvalidMessage, judge
from perdure.worker.messaging.transports.redis import RedisChannel, RedisTransport

__all__ = ["InvalidMessage", "RedisChannel", "RedisTransport", "judge"]
