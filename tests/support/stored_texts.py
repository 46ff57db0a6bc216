"""All that a state server holds, as text."""

from __future__ import annotations

from typing import Any

import redis

from tests.support.redis_servers import CrashableServer


def stored(server: CrashableServer) -> list[str]:
    """Return all data of the server, as text."""
    with redis.Redis.from_url(server.url, decode_responses=True) as client:
        read: dict[str, Any] = {
            "hash": client.hgetall,
            "string": client.get,
            "set": client.smembers,
            "stream": client.xrange,
        }
        read |= {
            "list": lambda key: client.lrange(key, 0, -1),
            "zset": lambda key: client.zrange(key, 0, -1),
        }
        return [f"{key} {read[client.type(key)](key)}" for key in client.scan_iter(count=1000)]
