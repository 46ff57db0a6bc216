"""The broker's end of the outbox: kombu's Redis transport with the guard, on wired connections."""

from __future__ import annotations

from typing import Any

from tests.crash.points.faults import WiredConnection
from worker.guard import redis as guard


class Channel(guard.Channel):
    """Publishes over the wire of the story."""

    def _connparams(self, asynchronous: bool = False) -> dict[str, Any]:
        return {**super()._connparams(asynchronous), "connection_class": WiredConnection}


class Transport(guard.Transport):
    Channel = Channel
