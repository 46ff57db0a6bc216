"""Waits and signals: the signals that a waiting node sees, the park, the signal, and the message
that wakes its run.
"""

from __future__ import annotations

from typing import Any

from tests.model import family
from tests.model.laws import is_over, is_started, joined, law
from tests.model.moving import due_at, fresh_message, push
from tests.model.state import OVER, UNMADE, Run, Slot, World

Move = tuple[Any, ...]


def possible(w: World) -> list[Move]:
    """Return the moves of senders of signals."""
    config = w.config
    moves: list[Move] = [
        ("signal", place, wakes)
        for place, run in enumerate(w.runs)
        if run is not None and run.arrived < config.signals
        for wakes in (True, False)
    ]
    moves += [("wake", place) for place in range(len(w.wakers))]
    return moves


def of_slot(w: World, place: int, slot: Slot) -> list[Move]:
    """Return the move if the worker's node waits next."""
    run = w.runs[slot.run]
    holds = run is not None and slot.own and run.phase == "leased" and run.token == slot.token
    return [("see", place)] if holds and is_waiting(w, slot) and not slot.parks else []


def is_waiting(w: World, slot: Slot) -> bool:
    """Return whether the node has waits left to pass."""
    begun = slot.step >= w.config.waits_from and len(slot.seen) < len(w.config.waits)
    return begun and (w.family is None or w.family.group != "dropped")


def see(w: World, place: int) -> str:
    """Meet the node's next wait: it passes it with a present signal, or is about to park."""
    slot = w.slots[place]
    run = w.runs[slot.run]
    assert run is not None
    number = len(slot.seen)
    if w.config.children:
        if not joined(w) and not is_started(w, slot.step):
            w.slots[place] = slot._replace(parks=True)
            return "parks"
        w.slots[place] = slot._replace(seen=(OVER,))
        return "passes"
    following = run.taken + 1 + sum(seen != OVER for seen in slot.seen)
    if number in run.over:
        found = OVER
    elif w.config.waits[number][0] == "signal" and following <= run.arrived:
        found = following
    else:
        w.slots[place] = slot._replace(parks=True)
        return "parks"
    law(
        "C6",
        run.passed[number : number + 1] in ((), (found,)),
        "one attempt got past wait {} with {}, another with {}",
        number,
        run.passed,
        found,
    )
    run.passed = (*run.passed[:number], found, *run.passed[number + 1 :])
    w.slots[place] = slot._replace(seen=(*slot.seen, found))
    return "passes"


def park(w: World, place: int, run: Run) -> str:
    """Park the run as commit_round.lua does, kind ``park``, without a requested stop; return
    parked, or queued if the wait is over already.
    """
    rules = w.rules
    run.failures = run.losses = 0
    run.patience = run.fitting = None
    if run.is_unmade and rules.park_brings_its_message:
        run.message = (run.epoch, run.step)
    _record(w, run)
    if is_over(w, run) and rules.park_asks_whether_the_wait_is_over:
        _queue(w, place, run)
        return "queued"
    run.phase = "parked"
    # A child's end pushes the message of its parent, so a parent keeps it.
    keeps = not rules.park_rests or w.config.children
    fresh_message(w, run, run.message if keeps else UNMADE)
    due_at(w, run, run.wait_until)
    return "parked"


def begin_wait(w: World, run: Run, seen: tuple[int, ...]) -> None:
    """Write down the wait that the node has reached; the same one as before keeps its time."""
    number = len(seen)
    kind, ticks = w.config.waits[number]
    if kind == "children":
        family.open_group(w)
    before = run.wait_until
    same = run.wait == number and before is not None
    run.wait = number
    run.need = 1 + sum(each != OVER for each in seen) if kind == "signal" else 0
    if not same or not w.rules.park_keeps_the_time_of_its_wait:
        run.wait_until = ticks
    law("C6", not same or run.wait_until == before, "the time of a wait begins anew")


def end_waits(w: World, run: Run, seen: tuple[int, ...], kind: str) -> None:
    """Take the signals that a finished round saw, and drop its waits."""
    numbers = [each for each in seen if each != OVER]
    expected = max(numbers, default=run.taken)
    run.taken = expected if w.rules.commit_takes_what_its_round_saw or not seen else run.arrived
    law("C5", run.taken == expected, "a signal was taken that no round has seen")
    if w.rules.commit_ends_the_wait:
        run.wait, run.wait_until = -1, None
    if w.rules.time_outs_end_with_their_step:
        run.over = ()
    run.passed = ()
    if w.family is not None:
        ends = kind == "end" and w.rules.end_drops_what_was_not_joined
        family.drop_group(w, joins=run.step > 0 or ends)


def signal(w: World, place: int, wakes: bool) -> str:
    """Send a signal as signal_run.lua does.

    ``wakes``: whether its sender, asked to bring the message, is going to.
    """
    run, rules = w.runs[place], w.rules
    if run is None:
        return "missing"
    if run.phase == "completed":
        return "finished completed"
    run.arrived += 1
    if run.phase != "parked" or not is_over(w, run):
        return f"ok {run.phase}"
    if rules.signal_wakes:
        due_at(w, run, 0)
    if wakes:
        w.wakers = [(place, run.epoch, run.step)]
    return "unmade parked"


def wake(w: World, number: int) -> str:
    """Wake a run as wake_run.lua does, with a message made for it when its wait was over."""
    rules = w.rules
    place, epoch, step = w.wakers.pop(number)
    run = w.runs[place]
    if run is None:
        return "missing"
    if (
        (run.phase != "parked" and rules.wake_checks_phase)
        or (run.epoch != epoch and rules.wake_checks_epoch)
        or (run.step != step and rules.wake_checks_step)
    ):
        return f"moved {run.phase}"
    if run.phase == "parked" and not is_over(w, run) and rules.wake_asks_whether_the_wait_is_over:
        return f"moved {run.phase}"
    law("C3", run.phase == "parked" and is_over(w, run), "a {} run is woken", run.phase)
    _record(w, run)
    run.message = (epoch, step)
    _queue(w, place, run)
    return "queued"


def sweep(w: World, place: int, run: Run, is_unmade: Any) -> str:
    """Sweep a parked run that is due."""
    if not is_over(w, run):
        due_at(w, run, run.wait_until)
        return "in_line"
    _record(w, run)
    if is_unmade(w, place, run):
        return "unmade"
    _queue(w, place, run)
    return "woken"


def _queue(w: World, place: int, run: Run) -> None:
    by_signal = 0 < run.need <= run.arrived - run.taken
    by_signal = by_signal or (bool(w.config.children) and is_over(w, run))
    law(
        "C6",
        by_signal or run.wait in run.over,
        "the time of its wait has passed, and its next attempt will not know",
    )
    push(w, place, run)


def _record(w: World, run: Run) -> None:
    """Write down that the time of the wait has passed, unless a signal has ended it."""
    by_signal = 0 < run.need <= run.arrived - run.taken
    timed = run.wait_until is not None and run.wait_until <= 0
    if timed and not by_signal and run.wait not in run.over and w.rules.time_outs_are_recorded:
        run.over = (*run.over, run.wait)


MOVES = {"see": see, "signal": signal, "wake": wake}
