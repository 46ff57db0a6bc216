"""The window: which turns of a history a model is shown. Whole groups only: a call is never parted from its answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from flows.outcomes import Turn

#: The turns of one reply of the model, the first of which has part 0.
Group = tuple[Turn, ...]
#: Turns read at once, so that a long history is read in few steps, and no further than needed.
AT_ONCE = 32
#: What a window holds unless the flow says otherwise.
FIRST, LAST, TOKENS = 1, 50, 60_000


@dataclass(frozen=True, slots=True)
class Window:
    """How much of the history a request holds.

    Attributes:
        first: so many groups from the beginning.
        last: so many of the newest, of which one is always shown.
        tokens: as many as fit into this, estimated; the newest come first.
    """

    first: int = FIRST
    last: int = LAST
    tokens: int = TOKENS


@dataclass(frozen=True, slots=True)
class Shown:
    """What is shown: the groups before the gap, how many turns lie in it, and the groups after it."""

    first: tuple[Group, ...]
    left_out: int
    last: tuple[Group, ...]


def shown(history: Sequence[Turn], window: Window, tokens_of: Callable[[Group], float]) -> Shown:
    """The groups of ``history`` that a request shows; no more of it is read than that takes."""
    left = float(window.tokens)
    last: list[Group] = []
    begin = len(history)
    for group in _backwards(history):
        left -= tokens_of(group)
        if last and (left < 0 or len(last) >= window.last):
            left += tokens_of(group)
            break
        last.insert(0, group)
        begin -= len(group)
    first: list[Group] = []
    end = 0
    for group in _forwards(history, begin):
        left -= tokens_of(group)
        if left < 0 or len(first) >= window.first:
            break
        first.append(group)
        end += len(group)
    return Shown(tuple(first), begin - end, tuple(last))


def groups_of(turns: Sequence[Turn]) -> list[Group]:
    """The turns, by the replies they belong to."""
    groups: list[list[Turn]] = []
    for turn in turns:
        if begins(turn) or not groups:
            groups.append([])
        groups[-1].append(turn)
    return [tuple(group) for group in groups]


def begins(turn: Turn) -> bool:
    """Whether a reply begins with this turn."""
    return turn.command is None or turn.command.part == 0


def _backwards(history: Sequence[Turn]) -> Iterator[Group]:
    rest: list[Turn] = []
    begin = len(history)
    while begin > 0:
        stop, begin = begin, max(0, begin - AT_ONCE)
        groups = groups_of([*history[begin:stop], *rest])
        rest = []
        if begin > 0 and not begins(groups[0][0]):
            rest = list(groups.pop(0))
        yield from reversed(groups)


def _forwards(history: Sequence[Turn], end: int) -> Iterator[Group]:
    rest: list[Turn] = []
    start = 0
    while start < end:
        start, begin = min(end, start + AT_ONCE), start
        groups = groups_of([*rest, *history[begin:start]])
        rest = list(groups.pop()) if start < end else []
        yield from groups
