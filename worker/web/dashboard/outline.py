"""The outline of a run, for the picture of the whole run.

An outline has each event of the run in a few bytes. A run may have 10,000 rounds and more. This
process caches the outline and extends it by the events that were added since. So an update of an
open page costs one read of a few events.
"""

from __future__ import annotations

import json
import threading
from bisect import bisect_left
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from perdure.worker.domain.run import Run
from perdure.worker.web.auth import AuthorizedClient

#: Events that one read asks for. Redis takes about 5 ms for them.
EVENTS_PER_READ = 5000
#: Maximum events of an outline. Of a longer run, the oldest are left out.
MOST_POINTS = 100_000
#: Rounds up to which a page waits for the outline. They take about 50 ms, and 10,000 take
#: about a second, because the Redis client parses them in Python.
ROUNDS_AT_ONCE = 1000
#: Outlines kept by this process. One of 10,000 rounds takes about 2 MB.
OUTLINES_KEPT = 16
#: Types of events after which the next round is ready for a worker.
MAKES_READY = frozenset(
    ("submitted", "committed", "resumed", "retried", "given_back", "lost", "woken")
)
FAILURES = frozenset(("failed", "lost", "errored", "unread"))
#: Types of events that begin a wait for a person, a signal, a time, a budget or a provider.
WAITS = frozenset(("interrupted", "parked", "waits", "held_up", "stopped"))
OTHERS = frozenset(("resumed", "woken", "retried", "signalled", "stop_requested"))


class Point(NamedTuple):
    """One event of an outline.

    Attributes:
        id: The event's id.
        at: Time of the event (the end of a round), in ms since 1970.
        took: The duration of a round in ms. 0 for other events.
        wait: Time for which a round waited for a worker, in ms. 0 for other events, or if unknown.
        step: The event's step.
        kind: For a committed round, the role of its node: ``controller`` or ``executor``. ``bad``
            for a failure, ``wait`` for the beginning of a wait, ``other`` for some other types,
            else ''.
        type: The event's type.
    """

    id: str
    at: int
    took: int
    wait: int
    step: int
    kind: str
    type: str

    @property
    def is_round(self) -> bool:
        """Whether this point is a committed round."""
        return self.type == "committed"


class Outline:
    """A run's events as points, oldest first.

    Args:
        roles: The role of each node of the flow, by the node's name.
    """

    def __init__(self, roles: Mapping[str, str]) -> None:
        self.points: list[Point] = []
        #: Held while the outline is extended.
        self.lock = threading.Lock()
        self._roles = dict(roles)
        self._ready: int | None = None

    def extend(self, entries: Sequence[tuple[str, Mapping[str, str]]]) -> None:
        """Add stored events as points.

        ``entries`` are pairs of id and fields, oldest first. An invalid event is left out. Of more
        than MOST_POINTS points, the oldest are removed.
        """
        for entry_id, entry in entries:
            try:
                self._add(entry_id, entry)
            except (LookupError, ValueError):
                continue
        if len(self.points) > MOST_POINTS:
            del self.points[: len(self.points) - MOST_POINTS]

    @property
    def last(self) -> str | None:
        """The id of the newest event in the outline. None if the outline is empty."""
        return self.points[-1].id if self.points else None

    @property
    def rounds(self) -> int:
        """The number of committed rounds in the outline."""
        return sum(point.is_round for point in self.points)

    @property
    def failures_by_step(self) -> dict[int, int]:
        """The number of failures of each step that failed, newest step first."""
        return Counter(point.step for point in reversed(self.points) if point.kind == "bad")

    def of_step(self, step: int) -> list[Point]:
        """Return the events of a step and of the step before it, oldest first."""
        return [point for point in self.points if step - 1 <= point.step <= step]

    def before_step(self, step: int) -> str | None:
        """Return the id of the first event of a later step.

        A page that shows the events before that event, newest first, begins with ``step``.

        Returns:
            None if the outline has no event of a later step.
        """
        # Steps never decrease, so the events are ordered by step too.
        after = bisect_left(self.points, step + 1, key=lambda point: point.step)
        return self.points[after].id if after < len(self.points) else None

    def _add(self, entry_id: str, entry: Mapping[str, str]) -> None:
        kind, at = entry["type"], int(entry["at"])
        took = wait = 0
        if kind == "committed":
            took = int(entry.get("took") or 0)
            wait = max(0, at - took - self._ready) if self._ready is not None else 0
            shown_as = role_of_node(self._roles, entry["node"])
        else:
            shown_as = (
                "bad"
                if kind in FAILURES
                else "wait"
                if kind in WAITS
                else "other"
                if kind in OTHERS
                else ""
            )
        self.points.append(Point(entry_id, at, took, wait, int(entry["step"]), shown_as, kind))
        if kind in MAKES_READY:
            self._ready = at
        elif kind == "failed":
            self._ready = at + int(float(entry.get("retry_in") or 0))
        elif kind != "resent":
            self._ready = None


def role_of_node(roles: Mapping[str, str], node: str) -> str:
    """Return the role of a node: ``controller`` or ``executor``.

    If ``roles`` lacks the node, the name decides: it contains ``controller``, or else the node is
    an executor.
    """
    return roles.get(node) or ("controller" if "controller" in node.casefold() else "executor")


_outlines: OrderedDict[tuple[str, ...], Outline] = OrderedDict()
_lock = threading.Lock()


def is_at_hand(runs: AuthorizedClient, run: Run, roles: Mapping[str, str]) -> bool:
    """Return whether ``outline_of`` is fast: the outline is cached, or the run is short.

    Args:
        roles: The role of each node of the flow, by the node's name.
    """
    return run.state.step <= ROUNDS_AT_ONCE or _key(runs, run, roles) in _outlines


def outline_of(runs: AuthorizedClient, run: Run, roles: Mapping[str, str]) -> Outline:
    """Return the outline of a run, up to its newest event. This process caches the outline.

    Args:
        roles: The role of each node of the flow, by the node's name.
    """
    key = _key(runs, run, roles)
    with _lock:
        outline = _outlines.pop(key, None) or Outline(roles)
        _outlines[key] = outline
        while len(_outlines) > OUTLINES_KEPT:
            _outlines.popitem(last=False)
    with outline.lock:
        while True:
            entries = runs.stored_events(run.id, outline.last, EVENTS_PER_READ)
            outline.extend(entries)
            if len(entries) < EVENTS_PER_READ:
                return outline


def _key(runs: AuthorizedClient, run: Run, roles: Mapping[str, str]) -> tuple[str, ...]:
    settings = runs.client.settings
    return (
        str(settings.redis_url),
        settings.prefix,
        run.id,
        run.created_at.isoformat(),
        json.dumps(dict(roles), sort_keys=True),
    )
