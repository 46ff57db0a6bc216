"""Plans: which faults are played at which points.

All come from counting a story that was played before; none is listed by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from perdure.worker.store.scripts import TRANSITIONS
from tests.crash.points.faults import (
    ANSWERS,
    DIES_AFTER,
    DIES_BEFORE,
    PAUSES_AFTER,
    PAUSES_BEFORE,
    REPLY_LOST,
    TIMES_OUT,
    Fault,
)
from tests.crash.points.laws import Violation, violations
from tests.crash.points.story import Story

#: A plan: kind and place of each fault.
Plan = tuple[tuple[str, int], ...]
Plays = Callable[[Sequence[Fault]], Story]
#: The boundary that is met when an effect has been applied.
EFFECT = "behind the effect"
#: Requests that only look: the world is the same behind them.
LOOKS = {"HGETALL", "HMGET", "TIME", "HKEYS", "ZRANGE", "LLEN", "SCRIPT LOAD"}


@dataclass
class Tally:
    """The results of many stories."""

    stories: int = 0
    fired: int = 0
    found: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.stories} stories, {self.fired} faults fired, {len(self.found)} violations"


def deaths(story: Story, start: int = 0) -> list[tuple[str, int]]:
    """Return every place to die from point ``start`` on: before and behind each request, and at
    each boundary of user code.
    """
    found = []
    for place, point in enumerate(story.wire.trace[start:], start):
        found.append((DIES_BEFORE, place))
        if point.request:
            found.append((DIES_AFTER, place))
    return found


def worlds(story: Story, start: int = 0) -> list[list[tuple[str, int]]]:
    """Group ``deaths`` by the state that they leave behind.

    All deaths between two requests that change something leave the same server and the same
    effects: one place stands for all.
    """
    found: dict[tuple[str, int, int, int], list[tuple[str, int]]] = {}
    changed = effects = 0
    for place, point in enumerate(story.wire.trace):
        effects += point.name == EFFECT
        kinds = [(DIES_BEFORE, changed)]
        changed += point.request and point.name not in LOOKS
        kinds += [(DIES_AFTER, changed)] if point.request else []
        for kind, so_far in kinds:
            if place >= start:
                key = (point.actor, so_far, effects, point.moment)
                found.setdefault(key, []).append((kind, place))
    return list(found.values())


def changes(story: Story, start: int) -> list[str]:
    """Return the changes from point ``start`` on: requests that do more than look, and effects."""
    points = story.wire.trace[start:]
    return [
        point.name
        for point in points
        if point.name == EFFECT or (point.request and point.name not in LOOKS)
    ]


def lost_replies(story: Story) -> list[tuple[str, int]]:
    """Return each request as a fault: it is carried out, and its answer cut."""
    return [(REPLY_LOST, place) for place, point in enumerate(story.wire.trace) if point.request]


def refusals(story: Story) -> list[tuple[str, int]]:
    """Return each request with a timeout and with each error; NOSCRIPT only answers a script."""
    return [
        (kind, place)
        for place, point in enumerate(story.wire.trace)
        for kind in (TIMES_OUT, *ANSWERS)
        if point.request and (kind != "NOSCRIPT" or point.name in TRANSITIONS)
    ]


def pauses(story: Story) -> list[tuple[str, int]]:
    """Return the places where a worker stands still: before and behind each request, and at each
    boundary.
    """
    return [
        (kind, place)
        for place, point in enumerate(story.wire.trace)
        for kind in (PAUSES_BEFORE, PAUSES_AFTER)
        if point.actor.startswith("worker") and (point.request or kind == PAUSES_BEFORE)
    ]


def pairs(
    plays: Plays,
    first: Iterable[tuple[str, int]],
    second: Callable[[Story, int], list[tuple[str, int]]],
) -> Iterator[Plan]:
    """Yield each first fault with each second one at any later point of the story, played on after
    the first.
    """
    for one in first:
        story = plays([Fault(one[1], one[0])])
        yield from ((one, other) for other in second(story, one[1] + 1))


def play_all(plays: Plays, plans: Iterable[Plan]) -> Tally:
    """Play each plan and hold it against the laws.

    Raises:
        AssertionError: a fault never struck: its plan says nothing.
    """
    tally = Tally()
    for plan in plans:
        faults = [Fault(place, kind) for kind, place in plan]
        found = broken(plays, faults)
        for fault in faults:
            assert fault.fired == 1, (
                f"the fault ({fault}) of plan {plan} struck {fault.fired} times"
            )
        tally.stories += 1
        tally.fired += sum(fault.fired for fault in faults)
        if found:
            tally.found.append(told(plan, found))
    return tally


def broken(plays: Plays, faults: Sequence[Fault]) -> list[Violation]:
    """Return the laws that a story with faults breaks."""
    try:
        return violations(plays(faults))
    except Violation as violation:
        return [violation]
    except Exception as error:
        return [Violation("no surprise", f"{type(error).__name__}: {error}")]


def told(plan: Plan, found: Sequence[Violation]) -> str:
    """Format a plan and its violations."""
    return f"{' and '.join(f'{kind} at {place}' for kind, place in plan)}: {'; '.join(map(str, found))}"


def smallest(tally: Tally, limit: int = 5) -> str:
    """Return the violations with the shortest plans, for an assertion to show."""
    return "\n".join(sorted(tally.found, key=lambda text: (text.count(" at "), len(text)))[:limit])
