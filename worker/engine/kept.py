"""What flows keep in this process from one round of a run to its next, such as a coroutine."""

from __future__ import annotations

import threading
from collections import OrderedDict
from contextlib import suppress
from typing import Any, NamedTuple

from perdure.flows.core.process_cache import Kept
from perdure.worker.domain.record import Record

#: Runs of which something is kept, per process. What is kept of others can be made again.
MOST = 256


class _Held(NamedTuple):
    token: str
    value: Any


class KeptStates:
    """What is kept of the runs whose rounds this process has played last."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._held: OrderedDict[tuple[str, str], _Held] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, record: Record) -> Any:
        """Return what was kept, if the round that kept it was committed last."""
        with self._lock:
            held = self._held.pop(_key(record), None)
        if held is None:
            return None
        if held.token == record.fields.get("last_token"):
            return held.value
        _close(held.value)
        return None

    def keep(self, record: Record, token: str, value: Any) -> None:
        """Keep something until the run's next round, or until too many other runs are kept."""
        with self._lock:
            self._held[_key(record)] = _Held(token, value)
            dropped = self._held.popitem(last=False)[1] if len(self._held) > self._most else None
        if dropped is not None:
            _close(dropped.value)


class RunKept(Kept):
    """What is kept of one run, as one of its rounds sees it.

    Args:
        token: of the round's claim.
    """

    def __init__(self, states: KeptStates, record: Record, token: str) -> None:
        self._states, self._record, self._token = states, record, token

    def take(self) -> Any:
        """Return what the last round of the run has kept, or None."""
        return self._states.take(self._record)

    def keep(self, value: Any) -> None:
        """Keep something for the run's next round."""
        self._states.keep(self._record, self._token, value)


def _key(record: Record) -> tuple[str, str]:
    return record.id, record.fields.get("nonce", "")


def _close(value: Any) -> None:
    close = getattr(value, "close", None)
    if close is not None:
        with suppress(Exception):
            close()
