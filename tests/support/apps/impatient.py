"""The app of ``perdure.app`` with less patience for rounds that go on though nobody wants them."""

from __future__ import annotations

from perdure.worker.app import app
from perdure.worker.engine import heartbeat

heartbeat.LINGER_SECONDS = 1.0

__all__ = ["app"]
