"""The broker's end of the outbox: kombu's Redis transport with the guard, on wired connections."""

from __future__ import annotations

from typing import Any

from perdure.worker.messaging.transports import redis as guard
from tests.crash.points.faults import WiredConnection


class Channel(guard.RedisChannel):
    """Publishes over the wire of the story."""

    def _connparams(self, asynchronous: bool = False) -> dict[str, Any]:
        return {**super()._connparams(asynchronous), "connection_class": WiredConnection}


class Transport(guard.RedisTransport):
    Channel = Channel
