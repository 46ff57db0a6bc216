"""Perdure's app, which waits only one second for a stopped round that does not end."""

from __future__ import annotations

from perdure.worker.app import app
from perdure.worker.engine import heartbeat

heartbeat.LINGER_SECONDS = 1.0

__all__ = ["app"]
