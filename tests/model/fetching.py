"""The commit that prefetches: the popped message, the claim, and the repetition for a worker
without the reply.
"""

from __future__ import annotations

from typing import Any

from tests.model.moving import put
from tests.model.state import NOTHING, Run, Slot, World
from tests.model.transitions import grant

Move = tuple[Any, ...]
Pair = tuple[int, int]
REFUSED = ("fenced", "missing")


def possible(w: World, place: int, kind: str) -> list[Move]:
    """Return the commits of ``kind`` that prefetch: with a reply or without, by workers that know
    all flows or not, beginning with each list.
    """
    config = w.config
    # A worker knows the flow of the run that it commits.
    hows = ("heard", "ignorant") if config.ignorant and config.runs > 1 else ("heard",)
    heards = (True, False) if config.mute or config.unheard else (True,)
    return [
        ("fetch", place, kind, heard, how, first)
        for heard in heards
        for how in hows
        for first in range(config.queues)
    ]


def of_slot(config: Any, place: int, slot: Slot) -> list[Move]:
    """Return the moves of a worker with a prefetched message: begin it, give it back because it
    drains, or claim it if it is unclaimed.
    """
    if slot.state == "holds":
        hows = [
            "heard",
            *(["mute"] if config.mute else ()),
            *(["ignorant"] if config.ignorant else ()),
        ]
        return [("deliver", place, how) for how in hows]
    gives = [
        ("commit", place, "give_back", heard)
        for heard in ((True, False) if config.mute else (True,))
    ]
    return [("begin", place), *gives]


def doubles(w: World) -> list[Move]:
    """Return the moves that put a message in its list again: of this round, and of rounds past."""
    moves: list[Move] = []
    for place, run in enumerate(w.runs):
        if run is not None and len(w.lists[run.queue]) < w.config.longest:
            past = (
                [(run.epoch, run.step - 1)]
                if run.step
                else [(run.epoch - 1, run.step)]
                if run.epoch
                else []
            )
            now = [] if run.phase == "interrupted" else [(run.epoch, run.step)]
            moves += [("double", place, pair) for pair in now + past]
    return moves


def double(w: World, place: int, pair: Pair) -> None:
    """Put a message in its list once more, to be popped next."""
    run = w.runs[place]
    assert run is not None
    put(w, run.queue, (place, pair), consuming_end=True)


def pop(w: World, own: int, how: str, first: int) -> tuple[int, Pair, Run | None, int] | None:
    """Prefetch, as commit_round.lua does: return the run and the popped message, and if it was
    claimed, the run before the claim and its token.

    ``own``: the run that was committed, whose flow its worker knows.
    """
    count = len(w.lists)
    for queue in [(first + more) % count for more in range(count)]:
        if not w.lists[queue]:
            continue
        (place, pair), *rest = w.lists[queue]
        w.lists[queue] = tuple(rest)
        run, owner = w.runs[place], w.runs[own]
        if run is None or not _may_have(w, run, pair, known=how == "heard" or place == own):
            return place, pair, None, 0
        before = Run(run.frozen())
        token = grant(w, run)
        if owner is not None:
            owner.last_fetched = place
        return place, pair, before, token
    return None


def _may_have(w: World, run: Run, pair: Pair, known: bool) -> bool:
    """Return whether a claim by a delivery of this message would be granted."""
    rules = w.rules
    return (
        (run.message == pair or not rules.fetch_compares_the_message)
        and (run.phase == "queued" or not rules.fetch_checks_phase)
        and (run.stop != "requested" or not rules.fetch_stops_where_asked)
        and not (w.paused and rules.fetch_holds_paused_flows)
        and (known or not rules.fetch_leaves_unknown_flows)
    )


def fetched_again(w: World, slot: Slot, answer: str) -> tuple[int, int]:
    """Return the prefetch in the reply to a repeated commit: the run and its token, or NOTHING."""
    run, rules = w.runs[slot.run], w.rules
    if not rules.repeat_pops_nothing or (
        answer in REFUSED and not rules.refused_commits_fetch_nothing
    ):
        fetched = pop(w, slot.run, "heard", 0)
        return NOTHING if fetched is None or fetched[2] is None else (fetched[0], fetched[3])
    if (
        run is None
        or run.last_token != slot.token
        or run.last_fetched < 0
        or not rules.fetch_is_remembered
    ):
        return NOTHING
    there = w.runs[run.last_fetched]
    if there is None or there.phase != "leased":
        return NOTHING
    found = (run.last_fetched, there.token)
    return found if found == slot.fetched or not rules.repeat_checks_the_fetch_claim else NOTHING
