"""kombu transports that validate the messages of rounds before Celery reads them.

An invalid message could harm a worker. It is stored in a list of dead letters, which has a maximum
length. There is one transport per kind of broker, in ``perdure.worker.messaging.transports``:

- ``RedisTransport`` for Redis,
- ``sentinel:SentinelTransport`` for a Redis watched by Sentinels,
- ``amqp:AmqpTransport`` for RabbitMQ.
"""

from perdure.worker.messaging.message import InvalidMessage, judge
from perdure.worker.messaging.transports.redis import RedisChannel, RedisTransport

__all__ = ["InvalidMessage", "RedisChannel", "RedisTransport", "judge"]
