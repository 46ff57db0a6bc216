"""Orphans: the processes of a pool end when their worker is gone. Linux ends them itself; elsewhere they would wait for ever."""

from __future__ import annotations

import os
import threading
import time
from typing import Any

from worker.engine import Engine

LOOK_EVERY_SECONDS = 1.0


def watch_parent(engine: Engine) -> Any:
    """A receiver for Celery's signal ``worker_process_init``, which each process of a pool sends (and solo's, which is no child)."""

    def started(**_: Any) -> None:
        # The processes of an app of somebody else's may be in the middle of other tasks: those are left alone.
        if engine.owns_app and engine.worker_pid not in (None, os.getpid()):
            threading.Thread(target=_end_after_parent, args=(engine,), name="holdfast-parent", daemon=True).start()

    return started


def _end_after_parent(engine: Engine) -> None:
    # The round in hand may be finished: its lease is good, and its commit as well.
    while os.getppid() == engine.worker_pid or engine.heartbeat.leases:
        time.sleep(LOOK_EVERY_SECONDS)
    os._exit(0)
