"""The window: which turns of a history a request contains.

It contains whole groups only, so a call is never separated from its answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from perdure.flows.context import forgotten_of
from perdure.flows.outcomes import Turn

#: The turns of one reply of the model. The first has part 0.
Group = tuple[Turn, ...]
#: Turns read at once: a long history is read in few steps, and no further than necessary.
AT_ONCE = 32
#: Defaults of ``Window``.
FIRST, LAST, TOKENS = 1, 50, 60_000


@dataclass(frozen=True, slots=True)
class Window:
    """How much of the history a request contains.

    Attributes:
        first: Number of groups from the beginning.
        last: Number of the newest groups, of which at least one is always included.
        tokens: Estimated maximum tokens of all groups. The newest have precedence.
    """

    first: int = FIRST
    last: int = LAST
    tokens: int = TOKENS


@dataclass(frozen=True, slots=True)
class WindowView:
    """The part of the history that is shown.

    Attributes:
        first: The groups before the gap.
        left_out: The number of turns in the gap, with those that the run no longer has.
        last: The groups after the gap.
    """

    first: tuple[Group, ...]
    left_out: int
    last: tuple[Group, ...]


def shown(
    history: Sequence[Turn], window: Window, tokens_of: Callable[[Group], float]
) -> WindowView:
    """Choose the turns of a run's history that a request to the model contains.

    They are the oldest and the newest, as many as the window allows. No more of the history is read
    than necessary. If the oldest are gone, it begins with the gap.
    """
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
    for group in _forwards(history, begin) if not forgotten_of(history) else ():
        left -= tokens_of(group)
        if left < 0 or len(first) >= window.first:
            break
        first.append(group)
        end += len(group)
    return WindowView(tuple(first), begin - end, tuple(last))


def groups_of(turns: Sequence[Turn]) -> list[Group]:
    """Return the turns of a history in groups, one group for each reply of the model."""
    groups: list[list[Turn]] = []
    for turn in turns:
        if begins(turn) or not groups:
            groups.append([])
        groups[-1].append(turn)
    return [tuple(group) for group in groups]


def begins(turn: Turn) -> bool:
    """Return whether a turn of the history is the first that came from a reply of the model."""
    return turn.command is None or turn.command.part == 0


def _backwards(history: Sequence[Turn]) -> Iterator[Group]:
    """Yield the turns of a history in groups, one for each model reply, newest group first."""
    rest: list[Turn] = []
    oldest = forgotten_of(history)
    begin = len(history)
    while begin > oldest:
        stop, begin = begin, max(oldest, begin - AT_ONCE)
        groups = groups_of([*history[begin:stop], *rest])
        rest = []
        # A group whose first turns are gone is left out.
        if begin > 0 and not begins(groups[0][0]):
            rest = list(groups.pop(0))
        yield from reversed(groups)


def _forwards(history: Sequence[Turn], end: int) -> Iterator[Group]:
    """Yield the turns before position ``end`` in groups, one for each model reply, oldest first."""
    rest: list[Turn] = []
    start = 0
    while start < end:
        start, begin = min(end, start + AT_ONCE), start
        groups = groups_of([*rest, *history[begin:start]])
        rest = list(groups.pop()) if start < end else []
        yield from groups
