"""Outage: while a server fails this process, the log has one line at the start, one a minute, and one when it is over."""

from __future__ import annotations

import logging
import os
import threading
import time

logger = logging.getLogger("holdfast.store")

#: Seconds between two lines while it lasts.
REMINDED = 60.0


class Outage:
    """What a server does not answer or refuses at the moment, and what of it has been logged. Times are monotonic seconds.

    Args:
        server: which one, as the log calls it.
    """

    def __init__(self, server: str = "the state server") -> None:
        self._server = server
        self._pid = 0
        self._is_on = False
        self._began = self._told = 0.0
        self._forget_parent()

    @property
    def is_on(self) -> bool:
        """Whether something failed and nothing has passed since."""
        return self._is_on

    def failed(self, what: str, error: Exception, now: float | None = None) -> None:
        """Log that ``what`` failed and is tried again; where the log says so already, only once a minute."""
        now = time.monotonic() if now is None else now
        if self._pid != os.getpid():
            self._forget_parent()
        with self._lock:
            is_first = not self._is_on
            self._failing.add(what)
            if is_first:
                self._is_on, self._began = True, now
            elif now - self._told < REMINDED:
                logger.debug("%s, trying again: %s", what, error)
                return
            self._told = now
        if is_first:
            logger.warning("%s, trying again: %s", what, error)
        else:
            logger.warning("%s has not worked for %.0f s: %s, trying again: %s", self._server, now - self._began, what, error)

    def passed(self, what: str, now: float | None = None) -> None:
        """Log that the outage is over, if there was one and nothing else fails any more."""
        if not self._is_on:
            return
        now = time.monotonic() if now is None else now
        if self._pid != os.getpid():
            self._forget_parent()
        with self._lock:
            self._failing.discard(what)
            if self._failing or not self._is_on:
                return
            self._is_on = False
            lasted = now - self._began
        logger.warning("%s works again, after %.1f s", self._server, lasted)

    def dropped(self, what: str) -> None:
        """Nobody tries ``what`` any more."""
        with self._lock:
            self._failing.discard(what)

    def _forget_parent(self) -> None:
        """Start anew: a fork copies what its parent has seen, and a lock that another thread of it may hold."""
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._failing: set[str] = set()
        self._is_on = False
        self._began = self._told = 0.0
