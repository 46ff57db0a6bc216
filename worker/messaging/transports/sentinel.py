"""The validating transport for a Redis watched by Sentinels.

It is kombu's Sentinel transport with the validation of ``transports.redis``, over connections that
follow the master like those of the store. kombu expects several Sentinels as several URLs. After a
failure to connect it would take the next URL with its own transport, without validation. So the URL
names one Sentinel, and the option ``guard_sentinels`` names all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kombu.transport import redis as kombu_redis

from perdure.worker.messaging.transports.redis import OPTIONS, ValidatingChannel
from perdure.worker.private_parts.redis_channel import HookedSentinelChannel
from perdure.worker.store.sentinel import (
    FollowingConnection,
    FollowingSSLConnection,
    pool_of,
    sentinels_of,
)


class SentinelChannel(ValidatingChannel, HookedSentinelChannel):
    """kombu's Sentinel channel, validating what it consumes."""

    guard_sentinels: Sequence[tuple[str, int]] = ()
    sentinel_kwargs: Mapping[str, Any] = {}
    from_transport_options = (
        *kombu_redis.SentinelChannel.from_transport_options,
        *OPTIONS,
        "guard_sentinels",
    )
    connection_class = FollowingConnection
    connection_class_ssl = FollowingSSLConnection

    def sentinels(self) -> Any:
        """Return a client of the Sentinels in ``guard_sentinels``."""
        return sentinels_of(self.guard_sentinels, self.sentinel_kwargs)

    def pool_over(self, sentinels: Any, options: dict[str, Any]) -> Any:
        """Return a connection pool of the same kind as the store's."""
        return pool_of(self.master_name, sentinels, **options)


class SentinelTransport(kombu_redis.SentinelTransport):  # type: ignore[misc]
    """kombu's ``sentinel`` transport, with validation."""

    Channel = SentinelChannel
