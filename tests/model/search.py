"""The search: every reachable state, breadth first, and from each state a way to rest."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import Any

from tests.model.configurations import Config
from tests.model.family import is_settled
from tests.model.laws import RUNNING, Violation
from tests.model.moves import Move, act, is_good, possible
from tests.model.rules import Rules
from tests.model.state import RUN, World

#: Where a state has its family of runs.
FAMILY = 14
PHASE, DUE = RUN.index("phase"), RUN.index("due")


def _waits(run: tuple[Any, ...]) -> bool:
    """Return whether it waits for a signal alone, and so for a sender outside."""
    return run[PHASE] == "parked" and run[DUE] is None


@dataclass
class Found:
    """The result of a search.

    ``trace``: the shortest way to the violation, the violating move last.
    """

    states: int = 0
    moves: int = 0
    violation: Violation | None = None
    trace: list[Move] = field(default_factory=list)
    start: tuple[Any, ...] = ()


class Search:
    """Breadth first, so that the first trace found is a shortest one.

    States are kept once and their parts shared; of each, the state it was first reached from and
    the number of that move.
    """

    def __init__(self, config: Config, rules: Rules | None = None, most: int = 5_000_000) -> None:
        self.config, self.rules, self.most = config, rules or Rules(), most
        self.states: list[tuple[Any, ...]] = []
        self._known: dict[tuple[Any, ...], int] = {}
        self._parts: dict[Any, Any] = {}
        self._parent, self._move = array("l"), array("h")
        self._back: list[int] = []  # flat: from, to, of the good moves
        self.found = Found()

    def run(self, settle: bool = True) -> Found:
        """Search, and stop at the first violation.

        ``settle``: look for states from which no run comes to rest.
        """
        found = self.found
        for state in self.config.initial(self.rules):
            self._add(state, -1, -1)
        place = 0
        while place < len(self.states) and found.violation is None:
            self._expand(place)
            place += 1
        found.states = len(self.states)
        if found.violation is None and settle:
            self._all_settle()
        return found

    def world(self, state: tuple[Any, ...]) -> World:
        return World(state, self.config, self.rules)

    def _expand(self, place: int) -> None:
        state = self.states[place]
        for number, move in enumerate(possible(self.world(state))):
            w = self.world(state)
            self.found.moves += 1
            try:
                act(w, move)
            except Violation as violation:
                self.found.violation, self.found.trace = violation, [*self.trace(place), move]
                return
            reached = self._add(w.frozen(), place, number)
            if reached != place and is_good(move):
                self._back += reached, place

    def _add(self, state: tuple[Any, ...], parent: int, number: int) -> int:
        known = self._known.get(state)
        if known is not None:
            return known
        if len(self.states) >= self.most:
            raise RuntimeError(f"more than {self.most} states: {self.config.about}")
        shared = tuple([self._parts.setdefault(part, part) for part in state])
        self._known[shared] = len(self.states)
        self.states.append(shared)
        self._parent.append(parent)
        self._move.append(number)
        return len(self.states) - 1

    def trace(self, place: int) -> list[Move]:
        """Return the moves that first led to a state; if there are several starts, the start's
        number comes first.
        """
        moves: list[Move] = []
        while self._parent[place] >= 0:
            before = self._parent[place]
            moves.append(possible(self.world(self.states[before]))[self._move[place]])
            place = before
        self.found.start = self.states[place]
        return moves[::-1]

    def _all_settle(self) -> None:
        """Check that no run is lost: from every state good moves alone lead to a state in which
        each run has ended or waits for a person.
        """
        into: dict[int, list[int]] = {}
        for place in range(0, len(self._back), 2):
            into.setdefault(self._back[place], []).append(self._back[place + 1])
        reached = bytearray(len(self.states))
        todo = [
            place
            for place, state in enumerate(self.states)
            if all(run is None or run[PHASE] not in RUNNING or _waits(run) for run in state[0])
            and is_settled(state[FAMILY])
        ]
        for place in todo:
            reached[place] = 1
        while todo:
            for before in into.get(todo.pop(), ()):
                if not reached[before]:
                    reached[before] = 1
                    todo.append(before)
        lost = reached.find(0)
        if lost >= 0:
            self.found.violation = Violation(
                "V1", "nothing that workers and sweeps do brings this run to rest: it is lost"
            )
            self.found.trace = self.trace(lost)
