"""The possible moves: of messages, of workers, of people, and of time.

A move is a tuple, its name first; ``act`` makes it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.model import family, operating, topics, working
from tests.model.laws import law, lawful, moved, timely
from tests.model.moving import publish_all, put
from tests.model.state import TIMES, Run, World
from tests.model.staying import as_if_queued
from tests.model.sweeping import forget, sweep

Move = tuple[Any, ...]

#: The moves by which a run comes to rest without luck: nothing is lost from here on, and workers
#: act as they should.
GOOD = (
    "tick",
    "sweep",
    "take",
    "commit",
    "die",
    "publish",
    "beat",
    "unpause",
    "offer",
    "resend_claim",
    "resend_commit",
    "fetch",
    "stay",
    "resend_stay",
    "begin",
    "deliver",
    "take_apart",
    "see",
    "wake",
    "hear",
    *family.GOOD,
)


def is_good(move: Move) -> bool:
    """Return whether a healthy deployment makes this move by itself; people are not asked for
    anything.
    """
    match move:
        case ("take" | "deliver", _, how) | ("take_apart", how):
            return how == "heard"
        case ("fetch", _, kind, heard, how, _):
            return kind in ("next", "end", "park") and heard and how == "heard"
        case ("stay", _, heard):
            return bool(heard)
        case ("commit", _, kind, heard):
            return kind in ("next", "end", "park") and heard
        case ("sweep", told):
            return told is None
        case ("sweep", _, _):  # a process's death has been noticed
            return False
    return move[0] in GOOD


def possible(w: World) -> list[Move]:
    """Return every move from here."""
    config = w.config
    moves: list[Move] = [("sweep", told) for told in config.told]
    if config.hurries:
        moves += [
            ("sweep", None, place)
            for place, run in enumerate(w.runs)
            if run is not None and run.phase == "queued"
        ]
    if w.made:
        moves.append(("forget",))
    if may_pass(w):
        moves.append(("tick", 1))
    moves += [("tick", ticks) for ticks in config.stalls if may_pass(w, strict=True)]
    moves += working.possible(w)
    moves += operating.possible(w)
    if w.family is not None:
        moves += family.possible(w)
    if w.topic is not None:
        moves += topics.possible(w)
    if config.pauses:
        moves.append(("unpause",) if w.paused else ("pause",))
        moves += [
            ("offer", place)
            for place, run in enumerate(w.runs)
            if run is not None and run.waiting_for == "paused"
        ]
    moves += [
        ("publish", place, arrives) for place in range(len(w.handed)) for arrives in (True, False)
    ]
    return moves


def act(w: World, move: Move) -> Any:
    """Make the move, and see that every law holds. Returns the reply, if there is one.

    Raises:
        Violation: a law is broken.
    """
    name, kind = move[0], operating.kind_of(w, move)
    reply = MOVES[name](w, *move[1:])
    if w.config.in_order:
        publish_all(w)
    elif len(w.handed) > 2:
        w.handed, w.cut = w.handed[-2:], True
    runs, lists = w.origin[0], w.origin[3]
    for place, run in enumerate(w.runs):
        if run is None or run.frozen() == runs[place]:
            continue
        lawful(w, place, run)
        old = w.before(place)
        if old is not None and old.nonce == run.nonce:
            moved(old, run, name, kind)
            if name == "sweep":
                _swept(w, old, run)
            elif name == "stay":
                as_if_queued(w, place, old, run)
    if name == "sweep" and move[1] is None:
        _passed(w)
    if w.family is not None:
        family.lawful(w)
        if (parent := w.runs[0]) is not None:
            lawful(w, 0, parent)
    if w.topic is not None:
        topics.lawful(w)
    if not w.config.deletes and (tuple(w.lists) != lists or w.apart):
        timely(w)
    return reply


def may_pass(w: World, strict: bool = False) -> bool:
    """Return whether time may pass.

    If silence is distinguished from calm, a server that is up means that all living processes sweep
    and beat.
    """
    if not w.config.silence:
        return True
    recovering = w.silence is not None and w.silence[1] == 0 and not strict
    fresh = all(
        slot.until == w.config.lease or slot.state not in ("plays", "fetched") for slot in w.slots
    )
    return w.swept_at == 0 and (fresh or recovering)


def _tick(w: World, ticks: int) -> None:
    past = w.config.overdue
    for run in w.runs:
        if run is None:
            continue
        fields = run.__dict__
        for name in TIMES:
            time = fields[name]
            if time is not None:
                # A claim after the deadline sets its own limit a lease beyond it.
                floor = min(-w.config.lease, -past) if name == "deadline" else -past
                fields[name] = max(time - ticks, floor)
        if run.phase == "queued":
            run.age = min(run.age + ticks, w.config.oldest)
    if w.topic is not None:
        topics.tick(w, ticks)
    w.slots = [slot._replace(until=max(slot.until - ticks, 0)) for slot in w.slots]
    if w.config.silence:
        w.swept_at = max(w.swept_at - ticks, -past)
        if w.silence is not None:
            w.silence = (max(w.silence[0] - ticks, -past), max(w.silence[1] - ticks, -past))
            if w.silence[1] + w.config.lease / 2 < -past / 2:
                w.silence = (
                    None  # too long ago for a lease to have lapsed in it and not been looked at
                )
        w.cut |= w.swept_at == -past


def _swept(w: World, before: Run, after: Run) -> None:
    law("I3", after.step == before.step, "a sweep executes nothing")
    if before.phase == "leased" and after.phase != "leased":
        law(
            "V5",
            before.lease_until is not None and before.lease_until <= 0,
            "a lease was taken before its end",
        )
        overran = before.round_until is not None and before.round_until <= 0
        alive = any(
            slot.token == before.token and slot.own and slot.state == "plays" for slot in w.slots
        )
        law(
            "V5",
            not (w.config.silence and alive) or overran or w.config.forgetful,
            "a worker that lives and beats was robbed",
        )
        law(
            "I8",
            before.stop != "requested" or after.phase == "stopped",
            "a stop was asked for, and its lost round is played again",
        )


def _passed(w: World) -> None:
    """Look soon at runs that the queue has passed, or that are in no queue, after a sweep that
    knows the broker's lengths.
    """
    for run in w.runs:
        if (
            run is not None
            and run.phase == "queued"
            and (run.number <= w.cursor[run.queue] or not w.lists[run.queue])
        ):
            law(
                "V1",
                run.due is not None and run.due <= run.grace,
                "the line has passed it, and it is looked at in {} ticks",
                run.due,
            )


def _publish(w: World, place: int, arrives: bool) -> None:
    queue, run, message = w.handed.pop(place)
    if arrives:
        put(w, queue, (run, message), consuming_end=False)


def _pause(w: World) -> None:
    w.paused = True


def _unpause(w: World) -> None:
    w.paused = False


MOVES: dict[str, Callable[..., Any]] = {
    "sweep": sweep,
    "forget": forget,
    "tick": _tick,
    "publish": _publish,
    "pause": _pause,
    "unpause": _unpause,
    "offer": operating.offer,
    **working.MOVES,
    **operating.MOVES,
    **family.MOVES,
    **topics.MOVES,
}
