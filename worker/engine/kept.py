"""Objects that flows keep in this process between two rounds, such as a coroutine.

They save work only: a flow can make any of them again.
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
    """The kept objects of runs with recent rounds here."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._held: OrderedDict[tuple[str, str], _Held] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, record: Record) -> Any:
        """Return the kept object, and forget it.

        None unless the round that kept it made the run's last commit.
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

        It is dropped earlier if too many other runs keep objects.
        """
        with self._lock:
            self._held[_key(record)] = _Held(token, value)
            dropped = self._held.popitem(last=False)[1] if len(self._held) > self._most else None
        if dropped is not None:
            _close(dropped.value)


class RunKept(Kept):
    """The kept object of one run, for one of its rounds.

    Args:
        token: token of the round's claim.
    """

    def __init__(self, states: KeptStates, record: Record, token: str) -> None:
        self._states, self._record, self._token = states, record, token

    def take(self) -> Any:
        """Return the object kept by the run's last round, or None."""
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
