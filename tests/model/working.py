"""The moves of workers with messages and rounds, and their accidents."""

from __future__ import annotations

from typing import Any

from tests.model import fetching, staying, steering, waiting
from tests.model.fetching import REFUSED
from tests.model.laws import law
from tests.model.rounds import committed, granted
from tests.model.state import NOTHING, Run, Slot, World, server_of
from tests.model.transitions import (
    DONE,
    PAUSES,
    claim,
    commit,
    extend,
    forfeit,
    hand_on,
    record_intent,
    record_once,
)

Move = tuple[Any, ...]
Pair = tuple[int, int]


def possible(w: World) -> list[Move]:
    """Return the moves of workers and of the messages on their way to them."""
    config = w.config
    moves: list[Move] = []
    free = len(w.slots) < config.slots
    hows = (
        ["heard", *(["mute"] if config.mute else ()), *(["ignorant"] if config.ignorant else ())]
        if free
        else []
    )
    for queue, line in enumerate(w.lists):
        if line:
            moves += [("take", queue, how) for how in (*hows, "lost")]
    if config.hands_on:
        if w.apart and w.able:
            moves += [
                ("take_apart", how) for how in (*(how for how in hows if how != "ignorant"), "lost")
            ]
        moves += [("hand_on", place) for place, run in enumerate(w.runs) if run is not None]
        moves.append(("leave",) if w.able else ("come",))
    if config.again and free:
        for place, run in enumerate(w.runs):
            if run is not None:
                moves += [
                    ("again", place, pair, how)
                    for pair in _hints(run)
                    for how in (hows if pair == (run.epoch, run.step) else hows[:1])
                ]
    for place, slot in enumerate(w.slots):
        moves += _of_slot(w, place, slot)
    if config.waits:
        moves += waiting.possible(w)
    if config.heeds:
        moves += steering.possible(w)
    if config.doubles:
        moves += fetching.doubles(w)
    if config.forfeits:
        moves += [
            ("forfeit_other", place)
            for place, run in enumerate(w.runs)
            if run is not None and run.phase == "leased"
        ]
    return moves


def _hints(run: Run) -> list[Pair]:
    """Return messages that may come at any time: of this round, again; of rounds past; and forged
    ones.
    """
    pairs = [(run.epoch, run.step), (run.epoch, run.step + 1)]
    if run.step:
        pairs.append((run.epoch, run.step - 1))
    if run.epoch:
        pairs.append((run.epoch - 1, run.step))
    return pairs


def _of_slot(w: World, place: int, slot: Slot) -> list[Move]:
    config = w.config
    moves: list[Move] = [("die", place)]
    if slot.state == "asks":
        return [*moves, ("resend_claim", place)]
    if slot.state.startswith("sent"):
        return [*moves, ("resend_stay" if slot.state == staying.SENT else "resend_commit", place)]
    if slot.state != "plays":
        return moves + fetching.of_slot(config, place, slot)
    if config.forfeits:
        moves.append(("forfeit", place))
    if config.intents:
        moves += [("intend", place), ("record", place)]
    if config.beats:
        moves.append(("beat", place))
    kinds = config.kinds
    if config.waits:
        moves += waiting.of_slot(w, place, slot)
        if slot.parks:
            kinds = ("park",)
        elif waiting.is_waiting(w, slot):
            kinds = tuple([kind for kind in kinds if kind not in DONE and kind not in PAUSES])
    if config.heeds and steering.is_to_hear(w, slot):
        moves.append(("hear", place))
        kinds = tuple([kind for kind in kinds if kind not in DONE])
    if slot.late:
        kinds = ("next",)
    for kind in kinds:
        if (
            kind in ("next", "renew", "pause_next", "end_unfinished", "pause_unfinished")
            and slot.step + 1 >= config.steps
            and not slot.late
        ):
            continue
        if kind.startswith("pause") and slot.epoch >= config.epochs:
            continue
        moves.append(("commit", place, kind, True))
        if config.mute:
            moves.append(("commit", place, kind, False))
        if config.fetches and kind != "give_back":
            moves += fetching.possible(w, place, kind)
        if config.stays and kind == "next" and not slot.seen:
            moves += staying.possible(w, place)
    return moves


def take(w: World, queue: int, how: str) -> str:
    """Pop the message at the consuming end, and claim it; or lose it with the worker that popped
    it.
    """
    (place, pair), *rest = w.lists[queue]
    w.lists[queue] = tuple(rest)
    return "lost" if how == "lost" else again(w, place, pair, how)


def take_apart(w: World, how: str) -> str:
    """Do the same with the list of workers that play the flow."""
    (place, pair), *rest = w.apart
    w.apart = tuple(rest)
    return "lost" if how == "lost" else again(w, place, pair, how)


def leave(w: World) -> None:
    """Mark that the last worker that plays the flow left or died, and no longer counts as alive."""
    w.able = False


def come(w: World) -> None:
    """Mark that a worker of the flow has come."""
    w.able = True


def again(w: World, place: int, pair: Pair, how: str) -> str:
    """Claim the round of this message, as a worker."""
    before = w.before(place)
    word, token = claim(w, place, *pair, known=how != "ignorant")
    if word == "ok":
        w.slots.append(granted(w, place, pair, before, token, how))
    return word


def resend_claim(w: World, place: int) -> str:
    """Send a claim again whose reply was lost, as the client library does."""
    slot = w.slots.pop(place)
    run = w.runs[slot.run]
    before = w.before(slot.run)
    mine = run is not None and slot.own and run.phase == "leased" and run.token == slot.token
    unmoved = server_of(w)
    word, token = claim(w, slot.run, slot.epoch, slot.step, own_token=slot.token)
    if mine:
        law("I13", (word, token) == ("ok", slot.token), "a claim sent again is answered {}", word)
        law("I13", server_of(w) == unmoved, "a claim sent again changed something")
        w.slots.append(slot._replace(state="plays"))
    elif word == "ok":
        w.slots.append(granted(w, slot.run, (slot.epoch, slot.step), before, token, "heard"))
    return word


def settle(w: World, place: int, kind: str, heard: bool) -> str:
    """Commit a worker's round; its reply may be lost."""
    return _settle(w, place, kind, heard)[0]


def fetch(w: World, place: int, kind: str, heard: bool, how: str, first: int) -> str:
    """Commit, and prefetch the next message in the same script; the whole reply may be lost."""
    slot = w.slots[place]
    answer, refused = _settle(w, place, kind, heard)
    if refused and w.rules.refused_commits_fetch_nothing:
        return answer
    fetched = fetching.pop(w, slot.run, how, first)
    if fetched is None:
        return answer
    number, pair, before, token = fetched
    holder = (
        Slot(number, 0, *pair, "holds", 0, own=True)
        if before is None
        else granted(w, number, pair, before, token, "fetched")
    )
    if how == "ignorant":
        law(
            "I4",
            before is None or number == slot.run,
            "a worker that does not know the flow was granted its round",
        )
    claimed = NOTHING if before is None else (number, token)
    if heard:
        w.slots.append(holder)
    elif refused:
        w.slots.append(slot._replace(state=f"sent:{kind}:{answer}", until=0, fetched=claimed))
    else:
        w.slots[-1] = w.slots[-1]._replace(fetched=claimed)
    return f"{answer}, claimed {number}" if before is not None else f"{answer}, popped {number}"


def _settle(w: World, place: int, kind: str, heard: bool) -> tuple[str, bool]:
    """Commit for ``settle``; return the answer, and whether it was refused."""
    slot = w.slots[place]
    run = w.runs[slot.run]
    before = w.before(slot.run)
    answer = commit(w, slot.run, slot.epoch, slot.step, slot.token, kind, slot.seen, slot.knows)
    if answer == "unread":  # the same lease commits that the run goes on
        w.slots[place] = slot._replace(late=True)
        return answer, True
    del w.slots[place]
    if before is None or run is None:
        return answer, True
    refused = answer in REFUSED
    committed(w, slot, before, run, kind, answer)
    if (
        before.held_token == slot.token
        and before.phase == "waiting"
        and before.waiting_for == "hold"
    ):
        law(
            "V1",
            run.due is not None and run.due <= 0,
            "the old worker is done, and the run waits for its lease all the same",
        )
    if not heard and not refused:
        w.slots.append(slot._replace(state=f"sent:{kind}:{answer}", until=0))
    return answer, refused


def resend_commit(w: World, place: int) -> str:
    """Send a commit again whose reply was lost, as the client library does."""
    slot = w.slots[place]
    _, kind, first = slot.state.split(":")
    unmoved = server_of(w)
    run = w.runs[slot.run]
    mine = (slot.token, slot.fetched[1]) if slot.fetched[0] == slot.run else (slot.token,)
    newest = run is not None and slot.own and run.token in mine
    answer = commit(w, slot.run, slot.epoch, slot.step, slot.token, kind, slot.seen, slot.knows)
    fetched = fetching.fetched_again(w, slot, answer) if w.config.fetches else NOTHING
    law(
        "I13",
        answer == first or not newest,
        "a commit that was answered {} is answered {} when it is sent again",
        first,
        answer,
    )
    law("I13", server_of(w) == unmoved, "a commit sent again changed something")
    del w.slots[place]
    if fetched == NOTHING:
        law(
            "I13",
            answer in REFUSED or not w.stands(slot.fetched),
            "a commit sent again keeps what it fetched to itself",
        )
        return answer
    law(
        "I13",
        fetched == slot.fetched,
        "a commit that fetched {} is told of {} when it is sent again",
        slot.fetched,
        fetched,
    )
    fresh = w.runs[fetched[0]]
    assert fresh is not None and fresh.lease_until is not None
    w.slots.append(
        Slot(
            fetched[0],
            fresh.token,
            fresh.epoch,
            fresh.step,
            "fetched",
            max(0, fresh.lease_until),
            own=True,
        )
    )
    return f"{answer}, claimed {fetched[0]}"


def deliver(w: World, place: int, how: str) -> str:
    """Claim, by its own delivery, a message that a commit popped and did not claim."""
    slot = w.slots.pop(place)
    return again(w, slot.run, (slot.epoch, slot.step), how)


def begin(w: World, place: int) -> None:
    """Begin a prefetched round: from now on its lease is extended."""
    w.slots[place] = w.slots[place]._replace(state="plays")


def die(w: World, place: int) -> None:
    """Kill the worker with SIGKILL.

    A broker that keeps its queues in order hands the message out again at the head.
    """
    slot = w.slots.pop(place)
    if w.config.in_order and w.config.outbox:
        w.lists[slot.step % len(w.lists)] = (
            (slot.run, (slot.epoch, slot.step)),
            *w.lists[slot.step % len(w.lists)],
        )


def die_and_tell(w: World, place: int) -> str:
    """End a pool's process; its parent informs the server."""
    slot = w.slots.pop(place)
    run = w.runs[slot.run]
    holder = run is not None and run.phase == "leased" and run.token == slot.token
    word = forfeit(w, slot.run, slot.epoch, slot.step, slot.token)
    law(
        "V5",
        (word == "ok") == holder,
        "{}: the process that died {} the lease",
        word,
        "held" if holder else "did not hold",
    )
    return word


def another_died(w: World, place: int) -> str:
    """End a process that had another delivery of the message, or had lost its round long ago."""
    run = w.runs[place]
    assert run is not None
    word = forfeit(w, place, run.epoch, run.step, 0)
    law("V5", word == "not_held", "a worker that lives lost its lease because another died")
    return word


def beat(w: World, place: int) -> str:
    """Send the heartbeat of one process."""
    slot = w.slots[place]
    run = w.runs[slot.run]
    before = w.before(slot.run)
    word = extend(w, slot.run, slot.token)
    holder = (
        before is not None and before.phase == "leased" and before.token == slot.token and slot.own
    )
    law(
        "I5",
        (word == "lost") == (not holder),
        "a beat is answered {}, and the worker {} the lease",
        word,
        "holds" if holder else "does not hold",
    )
    if holder:
        assert run is not None and before is not None and run.lease_until is not None
        law(
            "I8",
            (word == "stop") == (before.stop == "requested"),
            "a worker is not told of the stop",
        )
        law(
            "I16",
            run.round_until is None or run.lease_until <= run.round_until,
            "a beat carries a lease past the round's own limit",
        )
        w.slots[place] = slot._replace(until=max(0, run.lease_until))
    return word


def intend(w: World, place: int) -> str:
    """Ask to carry out the step's command, as a worker about to do so; a second request changes
    nothing.
    """
    slot = w.slots[place]
    before, unmoved = w.before(slot.run), server_of(w)
    run = w.runs[slot.run]
    word = record_intent(w, slot.run, slot.epoch, slot.step, slot.token)
    holder = (
        before is not None and before.phase == "leased" and before.token == slot.token and slot.own
    )
    law(
        "L1",
        (word == "ok") == holder,
        "leave to begin is answered {}, and the worker {} the round",
        word,
        "has" if holder else "has lost",
    )
    if word == "ok" and run is not None and before is not None:
        law(
            "I13",
            slot.token not in before.begun or server_of(w) == unmoved,
            "an intent sent again changed something",
        )
        run.begun = tuple(sorted({*run.begun, slot.token}))
    return word


def record(w: World, place: int) -> str:
    """Record a worker's result, whether or not the round is still its own."""
    slot = w.slots[place]
    before = w.before(slot.run)
    run = w.runs[slot.run]
    word, whose = record_once(w, slot.run, slot.step, slot.token, slot.own)
    of_this_step = before is not None and slot.own and before.step == slot.step
    law(
        "L2",
        (word == "ok") == of_this_step,
        "a result of {} step is answered {}",
        "this" if of_this_step else "another",
        word,
    )
    if word != "ok" or run is None:
        return word
    run.returned = run.returned or whose
    law("L2", whose == run.returned, "one attempt was told another result than the one before")
    return "ok mine" if whose == slot.token else "ok another's"


MOVES = {
    "take": take,
    "take_apart": take_apart,
    "hand_on": hand_on,
    "leave": leave,
    "come": come,
    "again": again,
    "resend_claim": resend_claim,
    "commit": settle,
    "fetch": fetch,
    "resend_commit": resend_commit,
    "deliver": deliver,
    "begin": begin,
    "double": fetching.double,
    "stay": staying.settle,
    "resend_stay": staying.settle_again,
    "die": die,
    "forfeit": die_and_tell,
    "forfeit_other": another_died,
    "beat": beat,
    "intend": intend,
    "record": record,
    **waiting.MOVES,
    **steering.MOVES,
}
