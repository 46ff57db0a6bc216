"""Rounds: the laws of every granted claim, and of every commit, by any script."""

from __future__ import annotations

from tests.model import steering
from tests.model.fetching import REFUSED
from tests.model.laws import law
from tests.model.state import OVER, Run, Slot, World
from tests.model.transitions import DONE, ENDS


def granted(
    w: World, place: int, pair: tuple[int, int], before: Run | None, token: int, how: str
) -> Slot:
    """Return the worker with the granted round of this message; ``before``: its run before the
    claim, ``how``: the reply that the worker got.
    """
    run = w.runs[place]
    assert run is not None and before is not None
    law(
        "I4",
        pair == (run.epoch, run.step),
        "a message of {} was granted epoch {}, step {}",
        pair,
        run.epoch,
        run.step,
    )
    law("I3", token > before.token, "a token is not newer than the one before")
    law("I16", run.attempt == before.attempt + 1 or run.attempt > 2, "a claim is not counted")
    law("I8", run.since_stop is None, "a claim was granted after an acknowledged stop")
    law("V3", not run.not_before, "a round is played before the time that was asked for")
    law("V4", not w.paused, "a round of a paused flow was granted")
    law(
        "L4",
        not run.ending and not run.unfinished,
        "a run is played on whose last round is committed",
    )
    law("I4", how != "ignorant", "a worker that does not know the flow was granted its round")
    state = {"mute": "asks", "fetched": "fetched"}.get(how, "plays")
    others = [
        slot
        for slot in w.slots
        if slot.run == place and slot.own and slot.until > 0 and not slot.state.startswith("sent")
    ]
    law(
        "I5",
        not others,
        "two workers are in step {}, both with a lease that has not ended",
        run.step,
    )
    knows = run.arrived if w.config.heeds else 0
    return Slot(place, token, *pair, state, w.config.lease, own=True, knows=knows, told=knows)


def committed(w: World, slot: Slot, before: Run, run: Run, kind: str, answer: str) -> None:
    """Check the answer to a worker's commit."""
    holder = before.phase == "leased" and before.token == slot.token and slot.own
    refused = answer in REFUSED
    law(
        "I4",
        refused or holder,
        "a commit of {} was accepted from a worker that is not the newest in a lease of this run",
        kind,
    )
    law(
        "I4",
        not refused or not holder,
        "a commit was refused though nobody has taken the lease away",
    )
    if holder and kind in DONE:
        law("I10", run.i_answer is None, "an answer was not consumed by the round that used it")
        law(
            "I8",
            before.since_stop != 0,
            "a round was committed after the one that a graceful stop allows, or after a stop now",
        )
        law(
            "C6",
            run.wait < 0 and run.wait_until is None and not run.over,
            "what a step waited for is kept behind its end",
        )
        if w.config.heeds:
            steering.committed(run, slot, answer)
        run.since_stop = None if run.since_stop is None else 0
        law(
            "I16",
            run.failures == run.losses == 0 and run.patience is run.fitting is None,
            "a committed round leaves its successor fewer tries",
        )
    law(
        "C12",
        run.generation == before.generation + (holder and kind == "renew" and not refused),
        "{} renewed the run to generation {}",
        kind,
        run.generation,
    )
    if holder and kind == "renew" and not refused:
        used = [each for each in slot.seen if each != OVER]
        law(
            "C12",
            run.arrived == before.arrived and run.taken == max(used, default=before.taken),
            "a renewal lost signals: {} of {} are taken",
            run.taken,
            run.arrived,
        )
    if answer == "continued" and holder:
        law(
            "V1",
            run.grace == w.config.grace,
            "a committed round leaves its successor a grace that has grown",
        )
    if (
        answer == "continued"
        and holder
        and run.phase == "queued"
        and not w.config.outbox
        and not w.cut
    ):
        sent = (slot.run, (run.epoch, run.step)) in w.lists[run.queue]
        law("I6", sent, "a round was committed without the message for the next")
    if holder and before.stop == "requested":
        law(
            "I9",
            answer == ("completed" if kind in ENDS else "stopped"),
            "a stop was asked for, and {} came to {}",
            kind,
            answer,
        )
    if holder and kind in ("busy", "misfit"):
        law(
            "I16",
            run.failures == before.failures and run.losses == before.losses,
            "a wait for a provider or for code is counted as a failure",
        )
    if (
        holder
        and kind in ("failed", "try_again", "busy")
        and answer == "waiting"
        and run.patience is not None
    ):
        law(
            "I16",
            before.patience is None or before.patience > 0,
            "a round is tried again though its patience is spent",
        )
        law(
            "I16",
            (run.waiting_until or 0) <= run.patience,
            "a run waits until after its patience is spent",
        )
    if holder and kind == "misfit":
        over = before.fitting is not None and before.fitting <= 0
        stopped = before.stop == "requested"
        law(
            "I16",
            (answer == "errored") == (over and not stopped) or w.config.within is None,
            "a run waited {} for code that fits, and is {}",
            before.fitting,
            answer,
        )
    if holder and kind == "give_back":
        law(
            "I16",
            run.failures == before.failures and run.losses == before.losses,
            "a round that was given back is counted",
        )
