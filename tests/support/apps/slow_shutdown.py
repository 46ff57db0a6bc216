"""A worker that takes its time over Celery's signal that it shuts down, with the signal's lock in
its hand.
"""

from __future__ import annotations

import threading
import time
from typing import Any

from celery import signals

from tests.support.example_flows.rings import Ledger

__all__ = ["Ledger"]


class Slow:
    """A lock that is held for a moment longer."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()
        time.sleep(0.2)

    def __exit__(self, *_: Any) -> None:
        self._lock.release()


signals.worker_shutting_down.lock = Slow()
