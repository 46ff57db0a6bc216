"""The history of a run: its committed turns. A round loads older turns on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import overload

from perdure.flows.core.errors import Forgotten
from perdure.flows.core.outcomes import Turn

#: Older turns that are read in one request, unless a slice names a range.
AT_ONCE = 100


class History(Sequence[Turn]):
    """The turns of a run, oldest first. Older turns are loaded on demand.

    The oldest turns may be gone (``keep_turns`` of a flow, ``Renew``). The others keep their
    numbers, and ``len`` counts all. An iteration, and a slice, have the remaining turns. Access to
    a deleted turn by its number raises Forgotten.

    Args:
        length: number of committed turns.
        newest: the last ``len(newest)`` turns, which came with the claim.
        load: reads the turns ``[start, stop)``. A slice reads only missing turns. An index or an
            iteration reads ``AT_ONCE`` turns at a time.
        forgotten: number of the oldest turns, which are gone.
    """

    def __init__(
        self,
        length: int,
        newest: Sequence[Turn],
        load: Callable[[int, int], Sequence[Turn]],
        forgotten: int = 0,
    ) -> None:
        #: Number of the oldest turns, which are gone.
        self.forgotten = forgotten
        self._length = length
        self._load = load
        before = length - len(newest)
        self._turns = dict(enumerate(newest, before))

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Turn: ...
    @overload
    def __getitem__(self, index: slice) -> list[Turn]: ...
    def __getitem__(self, index: int | slice) -> Turn | list[Turn]:
        if isinstance(index, slice):
            wanted: Sequence[int] = range(*index.indices(self._length))
            if self.forgotten:
                wanted = [number for number in wanted if number >= self.forgotten]
            missing = [number for number in wanted if number not in self._turns]
            if missing:
                self._read(min(missing), max(missing) + 1)
            return [self._turns[number] for number in wanted]
        if index < 0:
            index += self._length
        if not 0 <= index < self._length:
            raise IndexError(f"the history has {self._length} turns; turn {index} does not exist")
        if index < self.forgotten:
            raise Forgotten(
                f"turn {index} of the history is gone; "
                f"{_left(self.forgotten, self._length)} (keep_turns of the flow, or Renew)"
            )
        if index not in self._turns:
            start = max(self.forgotten, index - index % AT_ONCE)
            self._read(start, min(start + AT_ONCE, self._length))
        return self._turns[index]

    def __iter__(self) -> Iterator[Turn]:
        return (self[number] for number in range(self.forgotten, self._length))

    def without(self, places: Sequence[int]) -> History:
        """Return this history without the turns at some positions.

        The positions are in ascending order.
        """
        beside = set(places)
        first = self._length
        while first - 1 in self._turns:
            first -= 1
        newest = [self._turns[at] for at in range(first, self._length) if at not in beside]

        def place_of(number: int) -> int:
            for place in places:
                if place > number:
                    break
                number += 1
            return number

        def load(start: int, stop: int) -> list[Turn]:
            first = place_of(start)
            turns = enumerate(self[first : place_of(stop - 1) + 1], first)
            return [turn for place, turn in turns if place not in beside]

        gone = self.forgotten - sum(place < self.forgotten for place in places)
        return History(self._length - len(places), newest, load, gone)

    def _read(self, start: int, stop: int) -> None:
        for number, turn in enumerate(self._load(start, stop), start):
            self._turns.setdefault(number, turn)


def forgotten_of(history: Sequence[Turn]) -> int:
    """Return the number of the oldest turns that a history no longer has. 0 for a plain list."""
    return history.forgotten if isinstance(history, History) else 0


def _left(first: int, length: int) -> str:
    return f"turns {first} to {length - 1} are there" if first < length else "no turn is left"


EMPTY_HISTORY = History(0, (), lambda start, stop: [])
