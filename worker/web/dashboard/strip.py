"""The picture of a run on one time axis.

The server draws the picture as SVG. The SVG's size does not depend on the number of rounds: for a
long run, it shows the sum of the rounds in each column.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property

from perdure.worker.web.dashboard.outline import Outline, Point

#: Units of the time axis, from 0.
WIDTH = 1000
#: Columns in which a long run is added up, each two units wide.
COLUMNS = 500
#: Up to this many rounds, each is drawn by itself, with its wait in the queue.
FEW_ROUNDS = 300
#: Parts of the axis, each a link to the rounds there.
PARTS = 40
#: Height of the track of a role, and distance between two tracks.
TRACK, PITCH = 16, 20
#: Height of the track of failures and waits.
EVENTS_TRACK = 10
#: Minimum width of a drawn box, so that it can be seen.
LEAST = 1.5


@dataclass(frozen=True)
class Part:
    """A part of the picture that links to the rows of its rounds.

    Attributes:
        x, width: Beginning and width of the part, in units of the time axis.
        before: The id of the first event after the part. None if no event follows.
        title: A text that names the steps and the failures in the part.
    """

    x: float
    width: float
    before: str | None
    title: str


class Strip:
    """A run's outline on one time axis.

    Args:
        first_shown, last_shown: Ids of the oldest and the newest event that the page shows as rows.
            '': the page has no rows.

    Attributes:
        roles: The roles that have rounds. Each role has a track of its own.
    """

    def __init__(self, outline: Outline, first_shown: str = "", last_shown: str = "") -> None:
        self._points: Sequence[Point] = list(outline.points)
        self._shown = (first_shown, last_shown)
        self._rounds = [point for point in self._points if point.is_round]
        self.roles = sorted({point.kind for point in self._rounds})
        self._from = min((point.at - point.took for point in self._points), default=0)
        self._to = max((point.at for point in self._points), default=0)

    @property
    def rounds(self) -> int:
        """The number of rounds in the picture."""
        return len(self._rounds)

    @property
    def failures(self) -> int:
        """The number of failures in the picture."""
        return sum(point.kind == "bad" for point in self._points)

    @property
    def waits(self) -> bool:
        """Whether the picture shows waits of the run.

        A run waits for a person, a signal, a time, a budget or a provider.
        """
        return any(point.kind == "wait" for point in self._points)

    @property
    def seconds(self) -> float:
        """The seconds that the time axis covers."""
        return (self._to - self._from) / 1000

    @property
    def first(self) -> datetime:
        """The time at which the time axis begins."""
        return datetime.fromtimestamp(self._from / 1000, UTC)

    @property
    def last(self) -> datetime:
        """The time at which the time axis ends."""
        return datetime.fromtimestamp(self._to / 1000, UTC)

    @property
    def height(self) -> int:
        """The height of the picture, in its units."""
        return PITCH * len(self.roles) + EVENTS_TRACK

    @property
    def is_detailed(self) -> bool:
        """Whether each round has a box of its own, because there are few rounds."""
        return len(self._rounds) <= FEW_ROUNDS

    @cached_property
    def paths(self) -> list[tuple[str, str]]:
        """The shapes of the picture, as SVG paths.

        Each is a pair of a CSS class and the path's data.
        """
        shapes = []
        for number, role in enumerate(self.roles):
            rounds = [point for point in self._rounds if point.kind == role]
            bottom = PITCH * number + TRACK
            if self.is_detailed:
                shapes.append(("wait", "".join(self._queue_waits(rounds, bottom))))
                shapes.append((role, "".join(self._bars(rounds, bottom))))
            else:
                shapes.append((role, "".join(self._columns(rounds, bottom))))
        top = PITCH * len(self.roles)
        shapes.append(("mark-wait", "".join(self._spans(top))))
        shapes.append(("mark-bad", "".join(self._failures(top))))
        return [(name, data) for name, data in shapes if data]

    @cached_property
    def window(self) -> tuple[float, float] | None:
        """Beginning and width of the page's rows.

        Both are in units of the time axis. None if the page has no rows, or if the outline lacks
        their events.
        """
        oldest, newest = self._shown
        at = {point.id: point for point in self._points if point.id in (oldest, newest)}
        if oldest not in at or newest not in at:
            return None
        begins = self._x(at[oldest].at - at[oldest].took)
        return begins, round(max(self._x(at[newest].at) - begins, 4), 1)

    @cached_property
    def parts(self) -> list[Part]:
        """The links of the picture: PARTS equal parts of the time axis, oldest first."""
        width = WIDTH / PARTS
        parts, position = [], 0
        for number in range(PARTS):
            ends = self._from + (self._to - self._from) * (number + 1) / PARTS
            begun = position
            while position < len(self._points) and (
                number == PARTS - 1 or self._points[position].at <= ends
            ):
                position += 1
            before = self._points[position].id if position < len(self._points) else None
            parts.append(Part(number * width, width, before, self._title(begun, position)))
        return parts

    def _title(self, begun: int, end: int) -> str:
        steps = [point.step for point in self._points[begun:end] if point.is_round]
        failures = sum(point.kind == "bad" for point in self._points[begun:end])
        bad = f", {failures} failed" if failures else ""
        if not steps:
            return f"no round ended here{bad}"
        which = f"step {steps[0]}" if steps[0] == steps[-1] else f"steps {steps[0]} to {steps[-1]}"
        return f"{which}{bad}"

    def _x(self, at: float) -> float:
        return round(WIDTH * (at - self._from) / ((self._to - self._from) or 1), 1)

    def _bars(self, rounds: Sequence[Point], bottom: int) -> Iterator[str]:
        for point in rounds:
            begins = min(self._x(point.at - point.took), WIDTH - LEAST)
            yield _box(begins, bottom - TRACK, max(self._x(point.at) - begins, LEAST), TRACK)

    def _queue_waits(self, rounds: Sequence[Point], bottom: int) -> Iterator[str]:
        for point in rounds:
            waits = self._x(point.at - point.took - point.wait)
            width = self._x(point.at - point.took) - waits
            if width > 0.5:
                yield _box(waits, bottom - TRACK / 2 - 2, width, 4)

    def _columns(self, rounds: Sequence[Point], bottom: int) -> Iterator[str]:
        """Yield a box for each column with rounds.

        The box's height shows the share of the column's time that rounds of a role took.
        """
        span = (self._to - self._from) / COLUMNS or 1
        busy = [0.0] * COLUMNS
        for point in rounds:
            begins, ends = point.at - point.took - self._from, point.at - self._from
            first, last = (min(int(at / span), COLUMNS - 1) for at in (begins, ends))
            if first == last:
                busy[first] += max(ends - begins, 1)
                continue
            busy[first] += (first + 1) * span - begins
            busy[last] += ends - last * span
            for column in range(first + 1, last):
                busy[column] += span
        for column, amount in enumerate(busy):
            if amount:
                high = round(3 + (TRACK - 3) * min(1.0, amount / span), 1)
                yield _box(column * WIDTH / COLUMNS, bottom - high, WIDTH / COLUMNS, high)

    def _spans(self, top: int) -> Iterator[str]:
        """Yield a box for each wait of the run. Waits too close to be told apart share a box.

        A wait lasts until the next event that is neither a wait nor a stop request.
        """
        begun: int | None = None
        end = -1.0
        for point in [*self._points, None]:
            if point is not None and point.kind == "wait":
                begun = point.at if begun is None else begun
            elif begun is not None and (point is None or point.type != "stop_requested"):
                x = self._x(begun)
                width = max(self._x(point.at if point else self._to) - x, LEAST)
                begun = None
                # Waits that cannot be told apart are drawn as one.
                if x >= end:
                    yield _box(min(x, WIDTH - width), top, width, EVENTS_TRACK - 2)
                    end = x + width

    def _failures(self, top: int) -> Iterator[str]:
        end = -1.0
        for point in self._points:
            if point.kind == "bad" and (x := min(self._x(point.at), WIDTH - 2)) >= end:
                yield _box(x, top - 2, 2, EVENTS_TRACK)
                end = x + 2


def _box(x: float, y: float, width: float, height: float) -> str:
    return f"M{x:g} {y:g}h{width:g}v{height:g}h{-width:g}z"
