"""The guard where the broker is a Redis that Sentinels watch over.

kombu's Sentinel transport with the same sieve as ``worker.guard.redis``, over connections that follow the master as those of the
runs do. kombu would be told of several Sentinels by several URLs, and after a failure to connect take the next of them with its
own transport, unguarded. So the URL names one, and the option ``guard_sentinels`` all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kombu.transport import redis as kombu_redis

from worker.guard.redis import OPTIONS, Guarded
from worker.store.reaching import FollowingConnection, FollowingSSLConnection, pool_of, sentinels_of


class Channel(Guarded, kombu_redis.SentinelChannel):  # type: ignore[misc]
    """kombu's Sentinel channel with the guard at its consuming end."""

    guard_sentinels: Sequence[tuple[str, int]] = ()
    sentinel_kwargs: Mapping[str, Any] = {}
    from_transport_options = (*kombu_redis.SentinelChannel.from_transport_options, *OPTIONS, "guard_sentinels")
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


class Transport(kombu_redis.SentinelTransport):  # type: ignore[misc]
    """``sentinel`` with the guard."""

    Channel = Channel
