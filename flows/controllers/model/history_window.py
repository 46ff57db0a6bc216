"""The window: which turns of a history a request contains.

It contains whole groups only, so a call is never separated from its answer.

A provider's cache holds the beginning of the last request. So the window does not move with each
reply. When the history overflows it, it drops to about half, and stays there until it overflows
again. Between two drops, a request begins with all messages of the request before it.

The first reply after a drop keeps the place where the window begins (``MARK``), so the place
follows from the history alone. See docs/internals/decisions/0054-a-window-moves-in-big-steps.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from perdure.flows.context import forgotten_of
from perdure.flows.outcomes import Turn

#: The turns of one reply of the model. The first has part 0.
Group = tuple[Turn, ...]
#: Turns read at once: a long history is read in few steps, and no further than necessary.
AT_ONCE = 32
#: Defaults of ``Window``.
FIRST, LAST, TOKENS = 1, 50, 60_000
#: The share of the tokens that the oldest groups may take.
FIRST_SHARE = 0.25
#: The name, among the extras of a reply's first command, of the number of the turn with which the
#: newest turns of its request began. Only the first reply after a drop has it.
MARK = "_window"


@dataclass(frozen=True, slots=True)
class Window:
    """How much of the history a request contains.

    Attributes:
        first: Number of groups from the beginning, within a quarter of ``tokens``.
        last: Maximum number of the newest groups, of which at least one is always included. If
            there are more, half as many remain.
        tokens: Estimated maximum tokens of all groups. If there are more, about half remain.
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
        dropped_to: The number of the turn after the gap, if the window has just dropped.
    """

    first: tuple[Group, ...]
    left_out: int
    last: tuple[Group, ...]
    dropped_to: int | None = None


class _Placed(NamedTuple):
    """A group with the number of its first turn, and the estimated tokens from there to the end."""

    group: Group
    begin: int
    tokens_to_end: float


def shown(
    history: Sequence[Turn], window: Window, tokens_of: Callable[[Group], float]
) -> WindowView:
    """Choose the turns of a run's history that a request to the model contains.

    If not all fit, they are the oldest and the newest. No more of the history is read than
    necessary. If the oldest are gone, it begins with the gap.
    """
    newest, has_gap = _newest(history, window, tokens_of)
    if not has_gap:
        begin = newest[-1].begin if newest else len(history)
        return WindowView((), begin, _groups(newest))
    dropped_before = _last_drop(newest) == newest[-1].begin
    stop = newest[-1].begin if dropped_before else len(history)
    first: list[Group] = []
    first_tokens, end = 0.0, 0
    for group in _forwards(history, stop) if not forgotten_of(history) else ():
        first_tokens += (tokens := tokens_of(group))
        if first_tokens > window.tokens * FIRST_SHARE or len(first) >= window.first:
            first_tokens -= tokens
            break
        first.append(group)
        end += len(group)
    room = window.tokens - first_tokens
    last = newest
    if not dropped_before or _fitting(newest, window.last, room) < len(newest):
        last = newest[: _fitting(newest, window.last // 2, room / 2)]
    begin = last[-1].begin
    dropped_to = None if last is newest else begin
    return WindowView(tuple(first), begin - end, _groups(last), dropped_to)


def _newest(
    history: Sequence[Turn], window: Window, tokens_of: Callable[[Group], float]
) -> tuple[list[_Placed], bool]:
    """Return the newest groups, newest first, and whether older ones are left out.

    They go back to the last drop, or else to the beginning, or to the first group that does not
    fit.
    """
    newest: list[_Placed] = []
    begin, tokens = len(history), 0.0
    mark = None
    for group in _backwards(history):
        tokens += tokens_of(group)
        begin -= len(group)
        newest.append(_Placed(group, begin, tokens))
        mark = _mark_of(group) if mark is None else mark
        if begin == mark:
            return newest, True
        if len(newest) > 1 and (tokens > window.tokens or len(newest) > window.first + window.last):
            return newest, True
    return newest, False


def _last_drop(newest: Sequence[_Placed]) -> int | None:
    """Return where the window began after its last drop, if these groups know of one."""
    marks = (_mark_of(place.group) for place in newest)
    return next((mark for mark in marks if mark is not None), None)


def _fitting(newest: Sequence[_Placed], most: int, room: float) -> int:
    """Return how many of the newest groups fit into a number of groups and tokens, at least one."""
    return max(1, sum(place.tokens_to_end <= room for place in newest[:most]))


def _mark_of(group: Group) -> int | None:
    """Return where the window of a reply's request begins, if the reply says so."""
    command = group[0].command
    mark = None if command is None else command.extras.get(MARK)
    return mark if isinstance(mark, int) else None


def _groups(newest: Sequence[_Placed]) -> tuple[Group, ...]:
    return tuple(place.group for place in reversed(newest))


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
