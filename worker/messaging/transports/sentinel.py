"""The validating transport for a Redis watched by Sentinels.

It is kombu's Sentinel transport with the validation of ``transports.redis``, over connections that
follow the master like those of the store. kombu expects several Sentinels as several URLs. After a
failure to connect it would take the next URL with its own transport, without validation. So the URL
names one Sentinel, and the option ``guard_sentinels`` all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kombu.transport import redis as kombu_redis

from perdure.worker.messaging.transports.redis import OPTIONS, ValidatingChannel
from perdure.worker.store.sentinel import (
    FollowingConnection,
    FollowingSSLConnection,
    pool_of,
    sentinels_of,
)


class SentinelChannel(ValidatingChannel, kombu_redis.SentinelChannel):  # type: ignore[misc]
    """kombu's Sentinel channel, with validation of consumed messages."""

    guard_sentinels: Sequence[tuple[str, int]] = ()
    sentinel_kwargs: Mapping[str, Any] = {}
    from_transport_options = (
        *kombu_redis.SentinelChannel.from_transport_options,
        *OPTIONS,
        "guard_sentinels",
    )
    connection_class = FollowingConnection
    connection_class_ssl = FollowingSSLConnection

    def _sentinel_managed_pool(self, asynchronous: bool = False) -> Any:
        options = self._connparams(asynchronous)
        del options["host"], options["port"]  # the first Sentinel's
        sentinels = sentinels_of(self.guard_sentinels, self.sentinel_kwargs)
        if asynchronous:  # kombu closes both
            self._async_sentinel_manager = sentinels
        else:
            self._sentinel_manager = sentinels
        return pool_of(self.master_name, sentinels, **options)


class SentinelTransport(kombu_redis.SentinelTransport):  # type: ignore[misc]
    """``sentinel`` with validation."""

    Channel = SentinelChannel
