"""Log lines about a server outage: one at its start, one a minute, and one at its end."""

from __future__ import annotations

import logging
import os
import threading
import time

logger = logging.getLogger("perdure.store")

#: Seconds between two log lines during an outage.
REMINDED = 60.0


class Outage:
    """An outage of a server: the operations that fail, and the log lines about them.

    Times are in seconds of the monotonic clock.

    Args:
        server: the server's name in the log.
    """

    def __init__(self, server: str = "the state server") -> None:
        self._server = server
        self._pid = 0
        self._is_on = False
        self._began = self._told = 0.0
        self._forget_parent()

    @property
    def is_on(self) -> bool:
        """Whether an outage lasts.

        It begins when an operation fails, and ends when every operation that failed has succeeded.
        """
        return self._is_on

    def failed(self, what: str, error: Exception, now: float | None = None) -> None:
        """Log that an operation failed and is retried.

        During an outage, there is at most one warning a minute. The other failures are logged at
        debug level.

        Args:
            what: the text of the log line, which also identifies the operation.
            now: the time of the failure. None: now.
        """
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
            lasted = now - self._began
            logger.warning(
                "%s has not worked for %.0f s: %s, trying again: %s",
                self._server,
                lasted,
                what,
                error,
            )

    def passed(self, what: str, now: float | None = None) -> None:
        """Record that an operation succeeded.

        If it was the last failing operation, the outage ends, and its duration is logged. Without
        an outage, nothing happens.

        Args:
            what: the text with which the operation failed.
            now: the time of the success. None: now.
        """
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
        """Remove a failing operation that is not retried any more.

        The outage does not end here, even if no other operation fails.
        """
        with self._lock:
            self._failing.discard(what)

    def _forget_parent(self) -> None:
        """Reset the outage in a forked process.

        A fork copies the state of its parent, and also a lock that another thread of the parent may
        hold.
        """
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._failing: set[str] = set()
        self._is_on = False
        self._began = self._told = 0.0
