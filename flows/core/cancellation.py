"""State that a running round and its heartbeat share: cancellation, stop request and progress."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

#: Two threads that ask for a round's cancel token at once must get the same event.
_event_lock = threading.Lock()


class CancelToken(threading.Event):
    """An event whose truth value says whether it is set, as in ``if context.cancelled``."""

    def __bool__(self) -> bool:
        return self.is_set()


@dataclass
class Signals:
    """State that a running round and its heartbeat share.

    Attributes:
        stop_requested: whether a stop of the run was requested. The heartbeat sets it.
        progress: the round's last report. The round sets it, and the heartbeat sends it.
    """

    stop_requested: bool = False
    progress: Mapping[str, Any] | None = None
    _cancelled: threading.Event | None = None

    @property
    def cancelled(self) -> threading.Event:
        """The round's cancel token, created on first use.

        The heartbeat sets it if the lease is lost. Creating an event takes longer than most of a
        round's set-up, and most rounds never need it.
        """
        if self._cancelled is None:
            with _event_lock:
                self._cancelled = CancelToken() if self._cancelled is None else self._cancelled
        return self._cancelled

    @property
    def is_cancelled(self) -> bool:
        """Whether the cancel token of the round is set."""
        return self._cancelled is not None and self._cancelled.is_set()
