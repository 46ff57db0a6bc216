"""Messages to a run that works: their readers, and an end that has left one unread."""

from __future__ import annotations

from typing import Any

from tests.model.laws import law
from tests.model.state import OVER, Run, Slot, World
from tests.model.waiting import signal

Move = tuple[Any, ...]


def possible(w: World) -> list[Move]:
    """Return the moves by which people send messages."""
    return [
        ("say", place)
        for place, run in enumerate(w.runs)
        if run is not None and run.arrived < w.config.signals
    ]


def say(w: World, place: int) -> str:
    """Send a signal as signal_run.lua does, for a run that waits for nothing."""
    return signal(w, place, wakes=False)


def is_to_hear(w: World, slot: Slot) -> bool:
    """Return whether the round knows from its claim that a signal came since all were read, and has
    not looked yet.
    """
    run = w.runs[slot.run]
    holds = run is not None and slot.own and run.phase == "leased" and run.token == slot.token
    return bool(holds and run is not None and slot.knows != run.heard and not slot.seen)


def hear(w: World, place: int) -> str:
    """Read the mailbox, as a round. If nothing is new, it has looked all the same."""
    slot = w.slots[place]
    run = w.runs[slot.run]
    assert run is not None
    w.slots[place] = slot._replace(seen=tuple(range(run.taken + 1, run.arrived + 1)) or (OVER,))
    return f"hears {run.arrived}"


def is_refused(w: World, run: Run, kind: str, seen: tuple[int, ...]) -> bool:
    """Return whether commit_round.lua refuses an end, since something is unread."""
    heeds = w.config.heeds and kind == "end" and w.rules.end_heeds_what_is_unread
    return heeds and run.arrived > max(run.taken, *seen, 0)


def keep_heard(w: World, run: Run, seen: tuple[int, ...], knows: int) -> None:
    """Record up to where all signals were read: the number that the claim knew, for more may have
    come since.
    """
    if seen:
        run.heard = knows if w.rules.heard_is_what_the_claim_knew else run.arrived


def committed(run: Run, slot: Slot, answer: str) -> None:
    """Check the laws of a finished round."""
    law(
        "S2",
        run.taken >= slot.told,
        "{} signals were acknowledged before the round was claimed, and it heard {}",
        slot.told,
        run.taken,
    )
    law(
        "S1",
        answer != "completed" or run.taken == run.arrived,
        "the run ends and has not heard {}",
        run.arrived,
    )


MOVES = {"say": say, "hear": hear}
