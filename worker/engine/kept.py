"""Objects that flows keep in this process between two rounds of a run, such as a coroutine.

They only save work. If an object is not there, its flow makes it again.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from contextlib import suppress
from typing import Any, NamedTuple

from perdure.flows.core.process_cache import Kept
from perdure.worker.domain.record import Record

#: Maximum number of runs with a kept object, per process. Objects of other runs can be made again.
MOST = 256


class _Held(NamedTuple):
    token: str
    value: Any


class KeptStates:
    """The objects that flows keep in this process.

    Args:
        most: The maximum number of runs with an object.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._held: OrderedDict[tuple[str, str], _Held] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, record: Record) -> Any:
        """Remove a run's object, and return it.

        None if the run has no object here, or if the run's last commit was made by another
        round than the round that kept the object. In the second case, the object is closed.
        """
        with self._lock:
            held = self._held.pop(_key(record), None)
        if held is None:
            return None
        if held.token == record.fields.get("last_token"):
            return held.value
        _close(held.value)
        return None

    def keep(self, record: Record, token: str, value: Any) -> None:
        """Keep an object until the run's next round.

        If there are too many objects, the oldest one is removed and closed.

        Args:
            token: The token of the round that keeps the object.
        """
        with self._lock:
            self._held[_key(record)] = _Held(token, value)
            dropped = self._held.popitem(last=False)[1] if len(self._held) > self._most else None
        if dropped is not None:
            _close(dropped.value)


class RunKept(Kept):
    """The object that the flow of one run keeps, for one round of the run.

    Args:
        token: The token of the round's claim.
    """

    def __init__(self, states: KeptStates, record: Record, token: str) -> None:
        self._states, self._record, self._token = states, record, token

    def take(self) -> Any:
        """Remove and return the object that the run's last round kept in this process.

        Returns:
            None in the cases of ``KeptStates.take``.
        """
        return self._states.take(self._record)

    def keep(self, value: Any) -> None:
        """Keep an object for the run's next round."""
        self._states.keep(self._record, self._token, value)


def _key(record: Record) -> tuple[str, str]:
    return record.id, record.fields.get("nonce", "")


def _close(value: Any) -> None:
    close = getattr(value, "close", None)
    if close is not None:
        with suppress(Exception):
            close()
