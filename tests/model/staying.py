"""The commit by which a run stays: commit_and_continue.lua, and its repetition for a worker without
the reply.
"""

from __future__ import annotations

from typing import Any

from tests.model.laws import law
from tests.model.moving import due_at
from tests.model.rounds import committed, granted
from tests.model.rules import Rules
from tests.model.state import UNMADE, Run, Slot, World, server_of
from tests.model.transitions import commit, grant, next_token, round_limit

Move = tuple[Any, ...]

#: The state of a worker whose run stayed, and which does not know so.
SENT = "sent:stay:ok"
#: The state of a worker that is to commit as usual: that commit is the same one.
DECLINED = "sent:next:continued"
#: Fields in which a run that stays may differ from a run that was queued and claimed: its place in
#: the queue, its message, and the place of its newest commit's prefetch (it prefetched nothing, and
#: the id of its claim is no other run's).
OWN = ("number", "first_number", "last_fetched", "since_stop", "message")


def possible(w: World, place: int) -> list[Move]:
    """Return the stays of a worker that plays: with a reply and without."""
    return [
        ("stay", place, heard)
        for heard in ((True, False) if w.config.mute or w.config.unheard else (True,))
    ]


def stay(
    w: World, place: int, epoch: int, step: int, token: int, mine: int = 0, knows: int = 0
) -> tuple[str, int]:
    """Commit as commit_and_continue.lua does; return ok and the token of the next round, or other.

    ``mine``: the token that this very claim got before. ``knows``: the number of signals as of its
    claim.
    """
    run, rules = w.runs[place], w.rules
    if run is None or (run.phase != "leased" and rules.stay_checks_phase):
        return "other", 0
    if run.last_token == token and rules.stay_is_remembered:
        if run.token != mine and rules.repeat_checks_the_stay_claim:
            return "other", 0
        return "ok", run.token
    if (
        (run.token != token and rules.stay_checks_token)
        or (run.step != step and rules.stay_checks_step)
        or (run.epoch != epoch and rules.stay_checks_epoch)
    ):
        return "other", 0
    if w.config.heeds and run.arrived != knows and rules.stay_leaves_signals:
        return "other", 0
    number = w.cursor[(run.step + 1) % len(w.lists)]
    if _something_else(w, run, token) or (
        not number and rules.stay_leaves_lists_that_none_took_from
    ):
        return "other", 0
    run.log += 1
    run.spent += 1
    run.begun, run.returned = (), 0
    if rules.stay_ends_the_results:
        run.result = 0
    _next_round(w, run, number)
    run.last_token, run.last_answer = token, "continued"
    return "ok", run.token


def _something_else(w: World, run: Run, token: int) -> bool:
    """Return whether the commit has work, or news, that only commit_round handles."""
    rules = w.rules
    return (
        (run.stop == "requested" and rules.stay_leaves_stops)
        or (run.i_id is not None and rules.stay_leaves_answers)
        or (run.held_token == token and rules.stay_leaves_holds)
        or (run.failures > 0 and rules.stay_leaves_failures)
        or (run.losses > 0 and rules.stay_leaves_losses)
        or (run.erred and rules.stay_leaves_errors)
        or (run.grace != w.config.grace and rules.stay_leaves_longer_graces)
        or (w.paused and rules.stay_leaves_paused_flows)
    )


def _next_round(w: World, run: Run, number: int) -> None:
    rules, config = w.rules, w.config
    run.step, run.patience, run.fitting = run.step + 1, None, None
    run.queue = run.step % len(w.lists)
    if rules.stay_takes_the_message_away:
        run.message = UNMADE
    if rules.stay_takes_the_lists_number:
        run.number = number
    if rules.stay_ends_the_intent:
        run.intent = 0
    if rules.stay_ends_the_spare:
        run.spared = None
    run.was_spared = run.forfeited = False
    run.attempt = 1 if rules.stay_begins_the_attempts_anew else run.attempt + 1
    if rules.stay_makes_a_token:
        run.token = next_token(w)
    run.round_until = round_limit(w, run) if rules.stay_limits_the_next_round else None
    if rules.stay_leases_anew:
        run.lease_until = config.lease
    if rules.stay_is_due_anew:
        due_at(w, run, config.lease)


def settle(w: World, place: int, heard: bool) -> str:
    """Commit a round that another follows, and keep the run; the reply may be lost."""
    slot = w.slots[place]
    before, unmoved = w.before(slot.run), server_of(w)
    word, token = stay(w, slot.run, slot.epoch, slot.step, slot.token, knows=slot.knows)
    if word == "other":
        law(
            "I13",
            server_of(w) == unmoved,
            "a commit that is to be made like any other changed something",
        )
        return word
    run = w.runs[slot.run]
    assert before is not None and run is not None
    committed(w, slot, before, run, "next", "continued")
    del w.slots[place]
    between = Run(before.frozen())
    between.attempt = 0
    claimed = granted(w, slot.run, (slot.epoch, slot.step + 1), between, token, "fetched")
    claimed = claimed._replace(knows=slot.knows)  # it reads nothing
    w.slots.append(
        claimed if heard else slot._replace(state=SENT, until=0, fetched=(slot.run, token))
    )
    return word


def settle_again(w: World, place: int) -> str:
    """Send such a commit again whose reply was lost, as the client library does."""
    slot = w.slots[place]
    unmoved, stands = server_of(w), w.stands(slot.fetched)
    word, token = stay(w, slot.run, slot.epoch, slot.step, slot.token, mine=slot.fetched[1])
    law("I13", server_of(w) == unmoved, "a stay sent again changed something")
    expected = ("ok", slot.fetched[1]) if stands else ("other", 0)
    law(
        "I13",
        (word, token) == expected,
        "a stay that was granted {} is answered {} when it is sent again",
        slot.fetched,
        (word, token),
    )
    if word == "ok":
        run = w.runs[slot.run]
        assert run is not None and run.lease_until is not None
        w.slots[place] = Slot(
            slot.run, token, run.epoch, run.step, "fetched", max(0, run.lease_until), own=True
        )
    else:
        w.slots[place] = slot._replace(state=DECLINED)
    return word


def as_if_queued(w: World, place: int, before: Run, after: Run) -> None:
    """Check that staying equals the commit, and the claim of the sent message by the same worker,
    with nothing between them.
    """
    shadow = World(w.origin, w.config, Rules())
    answer = commit(shadow, place, before.epoch, before.step, before.token, "next")
    law("L3", answer == "continued", "a run stays, and its commit would have come to {}", answer)
    queued = shadow.runs[place]
    assert queued is not None
    grant(shadow, queued)
    fields = after.__dict__
    wrong = {
        name: (fields[name], was)
        for name, was in queued.__dict__.items()
        if fields[name] != was and name not in OWN
    }
    law(
        "L3",
        not wrong,
        "a run stays, and differs from one that was queued and claimed (is, should be): {}",
        wrong,
    )
