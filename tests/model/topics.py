"""Topics: a name that one live run holds, the signals that wait for a run to take it, and the
remembered keys of signals.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.model.laws import law
from tests.model.state import ENDED, GONE, Run, World, server_of

Move = tuple[Any, ...]
Holder = tuple[int, int]  # the run's place and its nonce; GONE: that run was deleted

#: Ticks for which a signal waits.
KEPT = 1


class Topic(NamedTuple):
    """The topic's hash, and behind it the ghosts, which only the laws read."""

    holder: Holder | None = None
    before: tuple[Holder, ...] = ()
    waiting: tuple[tuple[int, int], ...] = ()  # (key, ticks that it still waits)
    expires: bool = False
    mail: tuple[tuple[int, ...], ...] = ()  # the keys in each run's mailbox, in their order
    sent: tuple[int, ...] = ()  # keys that were acknowledged and neither deleted nor over, in order


def possible(w: World) -> list[Move]:
    """Return the moves of senders and submitters, each as often as they like."""
    moves: list[Move] = [("post", key) for key in range(1, w.config.posts + 1)]
    moves += [
        ("hold", place, run.nonce if run else 1)
        for place, run in enumerate(w.runs)
        if place >= w.config.kept
    ]
    if w.config.listens:
        moves += [("listen", place) for place, slot in enumerate(w.slots) if slot.state == "plays"]
    return moves


def new_topic(runs: int) -> Topic:
    """Return a topic that is not used yet."""
    return Topic(mail=((),) * runs)


def post(w: World, key: int) -> str:
    """Send a signal as signal_topic.lua does; return the place of the signal."""
    topic, rules = w.topic, w.rules
    holder = _holder(w)
    if rules.waiting_signals_are_known and any(key == each for each, _ in topic.waiting):
        return "waiting"
    knows: list[Holder] = []
    if topic.holder is not None and rules.holder_knows_its_keys:
        knows.append(topic.holder)
    if rules.earlier_holders_know_their_keys:
        knows += topic.before
    for place, nonce in knows:
        run = w.runs[place]
        if nonce != GONE and run is not None and key in topic.mail[place]:
            return f"ok r{place} {run.phase}"
    if key not in topic.sent:
        topic = topic._replace(sent=(*topic.sent, key))
    if holder is not None and rules.signals_go_to_the_holder:
        w.topic = _put(topic, w, holder, key)
        run = w.runs[holder]
        assert run is not None
        return f"ok r{holder} {run.phase}"
    ends = topic.expires or topic.holder is None or holder is None
    if topic.holder is not None and holder is None:
        topic = topic._replace(holder=None, before=_remembered(topic))
    w.topic = topic._replace(waiting=(*topic.waiting, (key, KEPT)), expires=ends)
    return "waiting"


def hold(w: World, place: int, nonce: int) -> str:
    """Submit a run with a topic, as submit_run.lua does; return ok or taken."""
    from tests.model.transitions import submit

    if w.runs[place] is not None:
        return submit(w, place, nonce, "queued")
    if not _is_free(w, w.rules.submit_asks_for_the_topic):
        return "taken"
    word = submit(w, place, nonce, "queued")
    _take(w, place, nonce)
    return word


def listen(w: World, place: int) -> str:
    """Take the topic for the run of a round, or ask again for the topic that the run has."""
    slot, unmoved = w.slots[place], server_of(w)
    before = w.before(slot.run)
    has_round = slot.own and before is not None
    has_round = has_round and before.phase == "leased" and before.token == slot.token
    word = take_topic(w, slot.run, slot.token)
    law(
        "T9",
        (word in ("ok", "taken")) == has_round,
        "a worker that {} the round is told {}",
        "has" if has_round else "has lost",
        word,
    )
    holds = word == "ok" and _holder(w) == slot.run
    law("T9", holds or word != "ok", "a run is told that it holds the topic, and does not")
    was = World(w.origin, w.config, w.rules)
    if _holder(was) == slot.run and has_round:
        law("T10", word == "ok", "a run that holds the topic is told {}", word)
        law("T10", server_of(w) == unmoved, "a run took a topic that it held")
    return word


def take_topic(w: World, place: int, token: int) -> str:
    """Take the topic as take_topic.lua does; return ok, taken, fenced or missing."""
    run, rules = w.runs[place], w.rules
    if run is None:
        return "missing"
    if (run.phase != "leased" and rules.taking_checks_phase) or (
        run.token != token and rules.taking_checks_token
    ):
        return "fenced"
    if _holder(w) == place and rules.holder_has_its_topic:
        return "ok"
    if not _is_free(w, rules.round_asks_for_the_topic):
        return "taken"
    _take(w, place, run.nonce)
    return "ok"


def _is_free(w: World, asks: bool) -> bool:
    """Return whether a run may take the topic."""
    holder = _holder(w)
    is_live = holder is not None and _is_live(w, holder)
    refuses = is_live if w.rules.topic_gives_way else holder is not None
    if refuses and asks:
        law("T3", is_live, "a run that rests does not give its topic to a live one")
        return False
    law("T3", not is_live, "two live runs hold one topic")
    return True


def _take(w: World, place: int, nonce: int) -> None:
    """Take the topic as take_topic of parts/topic.lua does."""
    topic, rules = w.topic, w.rules
    before = _remembered(topic) if rules.taking_remembers_the_holder else topic.before
    before = tuple(each for each in before if each != (place, nonce))
    taken = topic._replace(holder=(place, nonce), before=before)
    if rules.taking_ends_the_expiry:
        taken = taken._replace(expires=False)
    if rules.taking_moves_what_waits:
        law("T7", all(left > 0 for _, left in topic.waiting), "a signal arrives after its time")
        keys = [key for key, _ in topic.waiting]
        taken = taken._replace(waiting=())
        for key in keys if rules.moved_signals_keep_their_order else reversed(keys):
            taken = _put(taken, w, place, key)
    w.topic = taken


def completed(w: World, run: Run) -> None:
    """Release the topic of a completed run; the topic remembers its holder for a while."""
    place = _place(w, run)
    if not _holds(w, place):
        return
    w.topic = w.topic._replace(expires=True)
    if w.rules.completed_runs_give_up:
        before = _remembered(w.topic) if w.rules.giving_up_is_remembered else w.topic.before
        w.topic = w.topic._replace(holder=None, before=before)


def failed(w: World, run: Run) -> None:
    """Let the topic expire with its errored run."""
    if _holds(w, _place(w, run)) and w.rules.errored_runs_end_their_topic:
        w.topic = w.topic._replace(expires=True)


def kept(w: World, run: Run) -> None:
    """Keep the topic of a run that goes on."""
    if _holds(w, _place(w, run)) and w.rules.retries_keep_their_topic:
        w.topic = w.topic._replace(expires=False)


def deleted(w: World, place: int) -> None:
    """Release a deleted run's topic, and drop its signals."""
    if _holds(w, place) and w.rules.deleted_runs_give_up:
        w.topic = w.topic._replace(holder=None, expires=True)
    topic = w.topic
    gone = topic.mail[place]
    before = tuple(each for each in topic.before if each[0] != place)
    holder = (
        (place, GONE) if topic.holder is not None and topic.holder[0] == place else topic.holder
    )
    mail = tuple(() if number == place else keys for number, keys in enumerate(topic.mail))
    sent = tuple(key for key in topic.sent if key not in gone)
    w.topic = topic._replace(holder=holder, before=before, mail=mail, sent=sent)


def tick(w: World, ticks: int) -> None:
    """Take time from waiting signals; drop the expired ones."""
    topic = w.topic
    waiting = tuple((key, max(left - ticks, 0)) for key, left in topic.waiting)
    over = [key for key, left in waiting if left <= 0]
    sent = tuple(key for key in topic.sent if key not in over)
    if w.rules.waiting_signals_end:
        waiting = tuple(each for each in waiting if each[1] > 0)
    w.topic = topic._replace(waiting=waiting, sent=sent)


def lawful(w: World) -> None:
    """Check the laws of every state of the topic."""
    topic = w.topic
    waiting = [key for key, _ in topic.waiting]
    there = [*waiting, *(key for keys in topic.mail for key in keys)]
    law("T1", len(there) == len(set(there)), "a signal is there twice: {}", there)
    law(
        "T2",
        set(topic.sent) <= set(there),
        "of the signals {} only {} are there",
        topic.sent,
        there,
    )
    holder = _holder(w)
    law("T5", holder is None or not waiting, "signals wait though a run holds their topic")
    for keys in (*topic.mail, waiting):
        order = [topic.sent.index(key) for key in keys if key in topic.sent]
        law("T4", order == sorted(order), "the order of signals has changed: {}", keys)
    run = None if topic.holder is None else w.runs[topic.holder[0]]
    law("T8", run is None or run.phase != "completed", "a completed run holds the topic")
    stays = holder is not None and run is not None and run.phase not in ENDED
    exists = topic.holder is not None or topic.before or waiting
    law(
        "T6",
        not exists or topic.expires != stays,
        "the topic of {} expires: {}",
        run and run.phase,
        topic.expires,
    )


def _holder(w: World) -> int | None:
    """Return the place of the topic's run."""
    if w.topic.holder is None:
        return None
    place, nonce = w.topic.holder
    run = w.runs[place]
    return place if run is not None and run.nonce == nonce and run.phase != "completed" else None


def _holds(w: World, place: int) -> bool:
    """Return whether this run's end concerns the topic."""
    run, holder = w.runs[place], w.topic.holder
    if run is None or holder is None:
        return False
    return holder == (place, run.nonce) or not w.rules.topics_of_others_are_left_alone


def _is_live(w: World, place: int) -> bool:
    run = w.runs[place]
    return run is not None and run.phase not in (*ENDED, "stopped")


def _place(w: World, run: Run) -> int:
    return next(place for place, each in enumerate(w.runs) if each is run)


def _remembered(topic: Topic) -> tuple[Holder, ...]:
    known = [each for each in (topic.holder, *topic.before) if each is not None and each[1] != GONE]
    return tuple(dict.fromkeys(known))


def _put(topic: Topic, w: World, place: int, key: int) -> Topic:
    run = w.runs[place]
    assert run is not None
    run.arrived += 1
    mail = tuple(
        (*keys, key) if number == place else keys for number, keys in enumerate(topic.mail)
    )
    return topic._replace(mail=mail)


MOVES = {"post": post, "hold": hold, "listen": listen}
