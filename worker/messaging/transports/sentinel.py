"""The validating transport for a Redis watched by Sentinels.

It is kombu's Sentinel transport with the validation of ``transports.redis``. Its connections follow
the master like those of the store.

kombu expects one URL for each Sentinel. After a failure to connect, it would use the next URL with
its own transport, without validation. So here, the broker URL names one Sentinel, and the transport
option ``guard_sentinels`` names all of them.
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
    """kombu's Sentinel channel, but messages of rounds are validated before kombu reads them."""

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
        """Return a client of the Sentinels in the option ``guard_sentinels``."""
        return sentinels_of(self.guard_sentinels, self.sentinel_kwargs)

    def pool_over(self, sentinels: Any, options: dict[str, Any]) -> Any:
        """Return a connection pool to the master, of the same kind as the store's.

        Args:
            sentinels: The client of the Sentinels.
            options: redis-py's options for the connections to the master.
        """
        return pool_of(self.master_name, sentinels, **options)


class SentinelTransport(kombu_redis.SentinelTransport):  # type: ignore[misc]
    """kombu's ``sentinel`` transport, but with validation."""

    Channel = SentinelChannel
