"""The app of ``worker.app`` with less patience for rounds that go on though nobody wants them."""

from __future__ import annotations

from worker import heartbeat
from worker.app import app

heartbeat.LINGER_SECONDS = 1.0

__all__ = ["app"]
