"""Sending: what has ended goes to the collector now, and not when the SDK's time for it comes."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from typing import Any

from worker.telemetry.switch import is_on

logger = logging.getLogger("holdfast.telemetry")

#: Seconds that a process which ends waits for a collector to take its last spans.
PATIENCE = 3.0
#: Seconds between two sendings that are asked for in the middle of work: what is asked for meanwhile goes together.
APART = 0.05


def flush(seconds: float = PATIENCE) -> None:
    """This process ends: let its last spans go out, and wait for that for so long and no longer."""
    force = _force()
    if force is None:
        return
    # In a thread, as the SDK waits for a silent collector for as long as it likes.
    thread = threading.Thread(target=_send, args=(force,), name="holdfast-flush", daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        logger.warning("the collector has not taken the last spans within %g s; they are given up", seconds)


class Soon:
    """Sends in the background, once for all who ask within ``APART``: spans on which others hang, should this process be killed."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._pid: int | None = None

    def ask(self) -> None:
        """Send what has ended so far; returns at once."""
        if self._pid != os.getpid():  # the first time, or a fork, which copies no thread
            self._pid, self._asked = os.getpid(), threading.Event()
            threading.Thread(target=self._send_forever, args=(self._asked,), name="holdfast-spans", daemon=True).start()
        self._asked.set()

    def _send_forever(self, asked: threading.Event) -> None:
        pause = threading.Event()  # nobody sets it
        while asked.wait():
            asked.clear()
            if (force := _force()) is not None:
                _send(force)
            pause.wait(APART)


soon = Soon()


def _force() -> Callable[[], Any] | None:
    """The provider's way to send at once, where there is a provider that has one."""
    if not is_on():
        return None
    from opentelemetry import trace

    return getattr(trace.get_tracer_provider(), "force_flush", None)


def _send(force: Callable[[], Any]) -> None:
    try:
        force()
    except Exception as error:
        logger.warning("spans could not be sent: %s: %s", type(error).__name__, error)
