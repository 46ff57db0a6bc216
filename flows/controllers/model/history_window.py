"""The window: which turns of a history a request contains.

The window contains whole groups only, so a call is never separated from its observation.

A provider's cache holds the beginning of the last request. So the window does not move with each
reply. When the history overflows the window, the window drops to about half, and stays there until
the next overflow. Between two drops, a request begins with all messages of the request before it.

The first reply after a drop records the number of the turn with which the window begins (``MARK``).
So the history alone determines the window. See
docs/internals/decisions/0054-a-window-moves-in-big-steps.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from perdure.flows.core.history import forgotten_of
from perdure.flows.core.outcomes import Turn

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
#: The name, among the extras, that tells a summary of the turns before ``MARK`` from a command of
#: this name.
SUMMARY = "_summary"


@dataclass(frozen=True, slots=True)
class Window:
    """How much of the history a request contains. A group is the turns of one reply.

    Attributes:
        first: Number of the oldest groups. Together they take at most a quarter of ``tokens``.
        last: Maximum number of the newest groups. If there are more, half of this number remain. At
            least one is always included.
        tokens: Estimated maximum tokens of all groups. If there are more, about half remain.
    """

    first: int = FIRST
    last: int = LAST
    tokens: int = TOKENS


@dataclass(frozen=True, slots=True)
class WindowView:
    """The part of the history that a request shows. A group is the turns of one reply.

    Attributes:
        first: The groups before the gap. The gap consists of the turns that are left out.
        left_out: The number of turns in the gap, including turns deleted from the run.
        last: The groups after the gap.
        dropped_to: The number of the first turn after the gap, if this request is the first with
            this gap. Otherwise None.
        compacts_to: The number of the first turn after the gap in later requests, if this request
            must first ask for a summary of that gap. Otherwise None.
        summary: The model's summary of the turns in the gap, or an empty text.
    """

    first: tuple[Group, ...]
    left_out: int
    last: tuple[Group, ...]
    dropped_to: int | None = None
    compacts_to: int | None = None
    summary: str = ""


class _Placed(NamedTuple):
    """A group of a history.

    Attributes:
        begin: The number of the group's first turn.
        tokens_to_end: The estimated tokens of this and all newer groups.
    """

    group: Group
    begin: int
    tokens_to_end: float


class _Newest(NamedTuple):
    """The newest groups of a history, newest first. Summaries are left out.

    Attributes:
        has_gap: Whether older groups are left out. If that is because the window overflows, the
            last item of ``groups`` is the first group that does not fit.
        dropped_to: The number of the turn with which the window began after its last drop. None if
            the last item of ``groups`` does not begin there.
        summary: The model's summary of the turns before ``dropped_to``, or an empty text.
    """

    groups: list[_Placed]
    has_gap: bool
    dropped_to: int | None = None
    summary: str = ""


def shown(
    history: Sequence[Turn],
    window: Window,
    tokens_of: Callable[[Group], float],
    compacts: bool = False,
) -> WindowView:
    """Choose the turns that a model request shows.

    If not all turns fit, the oldest and the newest are chosen. No more of the history is read than
    necessary. If the oldest turns are deleted, the view begins with the gap.

    Args:
        tokens_of: Estimates the tokens of a group.
        compacts: Whether the model writes a summary before the window drops. The request for the
            summary contains the turns of the last request, and all turns since.
    """
    oldest_room = window.tokens * FIRST_SHARE
    view = _view(history, window, tokens_of, oldest_room)
    is_drop = view.dropped_to is not None and view.left_out > 0  # else there is nothing to sum up
    if not compacts or not is_drop or is_summary((history[-1],)):
        return view
    # The last request fits twice the window. If this one does not, the window was made smaller.
    wide = Window(window.first, 2 * window.last, 2 * window.tokens)
    whole = _view(history, wide, tokens_of, oldest_room)
    return view if whole.dropped_to is not None else replace(whole, compacts_to=view.dropped_to)


def _view(
    history: Sequence[Turn],
    window: Window,
    tokens_of: Callable[[Group], float],
    oldest_room: float,
) -> WindowView:
    """Choose the turns for a request without a summary. See ``shown``.

    Args:
        oldest_room: Maximum tokens of the oldest groups.
    """
    newest = _newest(history, window, tokens_of)
    groups = newest.groups
    if not newest.has_gap:
        begin = groups[-1].begin if groups else len(history)
        return WindowView((), begin, _shown(groups))
    stop = len(history) if newest.dropped_to is None else newest.dropped_to
    first: list[Group] = []
    first_tokens, end = 0.0, 0
    for group in _forwards(history, stop) if not forgotten_of(history) else ():
        first_tokens += (tokens := tokens_of(group))
        if first_tokens > oldest_room or len(first) >= window.first:
            first_tokens -= tokens
            break
        first.append(group)
        end += len(group)
    room = window.tokens - first_tokens
    if newest.dropped_to is not None and _fitting(groups, window.last, room) == len(groups):
        gap = newest.dropped_to - end
        return WindowView(tuple(first), gap, _shown(groups), summary=newest.summary)
    last = groups[: _fitting(groups, window.last // 2, room / 2)]
    begin = last[-1].begin
    return WindowView(tuple(first), begin - end, _shown(last), begin)


def _newest(
    history: Sequence[Turn], window: Window, tokens_of: Callable[[Group], float]
) -> _Newest:
    """Return the newest groups of a history that may fit into the window.

    They go back to the last drop, to the beginning of the history, or to the first group that does
    not fit.
    """
    newest: list[_Placed] = []
    begin, tokens = len(history), 0.0
    mark, summary = None, ""
    for group in _backwards(history):
        begin -= len(group)
        if mark is None and (mark := _mark_of(group)) is not None and is_summary(group):
            summary = str(group[0].observation)
        if is_summary(group):
            continue
        tokens += tokens_of(group)
        newest.append(_Placed(group, begin, tokens))
        if begin == mark:
            return _Newest(newest, True, mark, summary)
        if len(newest) > 1 and (tokens > window.tokens or len(newest) > window.first + window.last):
            return _Newest(newest, True)
    return _Newest(newest, False)


def _fitting(newest: Sequence[_Placed], most: int, room: float) -> int:
    """Return how many newest groups fit, at least 1.

    Args:
        newest: The groups, newest first.
        most: Maximum number of groups.
        room: Maximum estimated tokens of the groups together.
    """
    return max(1, sum(place.tokens_to_end <= room for place in newest[:most]))


def is_summary(group: Group) -> bool:
    """Return whether a group summarizes older turns."""
    command = group[0].command
    return command is not None and command.extras.get(SUMMARY) is True


def _mark_of(group: Group) -> int | None:
    """Return the number of the turn with which the window began.

    Returns:
        None if the reply has not recorded the number (``MARK``). Only the first reply after a drop
            of the window has.
    """
    command = group[0].command
    mark = None if command is None else command.extras.get(MARK)
    return mark if isinstance(mark, int) else None


def _shown(newest: Sequence[_Placed]) -> tuple[Group, ...]:
    return tuple(place.group for place in reversed(newest))


def groups_of(turns: Sequence[Turn]) -> list[Group]:
    """Return turns in groups, one group for each reply of the model."""
    groups: list[list[Turn]] = []
    for turn in turns:
        if begins(turn) or not groups:
            groups.append([])
        groups[-1].append(turn)
    return [tuple(group) for group in groups]


def begins(turn: Turn) -> bool:
    """Return whether a turn is the first turn of a reply.

    A reply with several calls has several turns, one for each call. A turn that belongs to no reply
    counts as the first, too.
    """
    return turn.command is None or turn.command.part == 0


def _backwards(history: Sequence[Turn]) -> Iterator[Group]:
    """Yield the groups of a history, newest first. A group is the turns of one reply.

    A group whose first turns are deleted is left out.
    """
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
    """Yield the groups of the turns before number ``end``, oldest first.

    A group is the turns of one reply.
    """
    rest: list[Turn] = []
    start = 0
    while start < end:
        start, begin = min(end, start + AT_ONCE), start
        groups = groups_of([*rest, *history[begin:start]])
        rest = list(groups.pop()) if start < end else []
        yield from groups
