"""The transitions of one run, a function a Lua file, in the order in which the Lua does things.

The sweep is in sweeping.py.
"""

from __future__ import annotations

from typing import Any

from tests.model import steering, topics
from tests.model.laws import law
from tests.model.moving import (
    complete,
    due_at,
    fail,
    forget_interrupt,
    free_lease,
    fresh_message,
    new_epoch,
    pause,
    push,
    rests,
    start_again,
    stop_here,
    take_down_passed_deadline,
    wait,
)
from tests.model.state import ENDED, LIVE, Run, World, new_run
from tests.model.waiting import begin_wait, end_waits, park

ENDS = ("end", "end_unfinished")
DONE = ("next", "renew", *ENDS, "pause_next", "pause_end", "pause_unfinished")
PAUSES = ("pause_next", "pause_end", "pause_unfinished", "pause_here", "pause_here_deadline")
INTERRUPT = {"i_id": (0, 0), "message": (1, 0)}


def submit(w: World, place: int, nonce: int, phase: str) -> str:
    """Submit a run as submit_run.lua does; return ok or exists."""
    run = w.runs[place]
    if run is not None and run.nonce == nonce and w.rules.submit_knows_its_nonce:
        return "ok"
    if run is not None and w.rules.submit_never_overwrites:
        return "exists"
    config = w.config
    run = w.runs[place] = new_run(nonce=nonce, deadline=config.deadline, grace=config.grace)
    run.step, run.message = config.begins, (0, config.begins)
    if phase == "queued":
        push(w, place, run)
    elif phase == "waiting":
        run.not_before = config.start
        wait(w, run, "start", config.start)
    else:
        run.i_id, run.message = (0, config.begins), (1, config.begins)
        pause(w, run)
    return "ok"


def claim(
    w: World, place: int, epoch: int, step: int, own_token: int = 0, known: bool = True
) -> tuple[str, Any]:
    """Claim a round as claim_round.lua does; return a word, and the token if the word is ``ok``.

    ``own_token``: the token that this very claim id got before, if any.
    """
    run, rules, config = w.runs[place], w.rules, w.config
    if run is None:
        return "missing", 0
    this_round = (run.epoch == epoch or not rules.claim_checks_epoch) and (
        run.step == step or not rules.claim_checks_step
    )
    if (
        this_round
        and run.phase == "leased"
        and run.token == own_token
        and rules.claim_knows_its_own
    ):
        return "ok", run.token
    if not this_round:
        return "stale", 0
    if run.phase in ENDED or run.phase == "stopped":
        return "finished", run.phase
    if run.phase == "interrupted" and rules.claim_is_early_while_interrupted:
        return "early", run.phase
    if run.phase == "waiting" and rules.claim_is_early_while_waiting:
        return "early", run.phase
    if run.phase == "parked" and rules.claim_is_early_while_parked:
        return "early", run.phase
    if run.phase == "leased" and (
        rules.claim_never_judges_time or run.lease_until is None or run.lease_until > 0
    ):
        return "leased", 0
    if run.stop == "requested" and rules.claim_stops_where_asked:
        stop_here(w, run)
        return "stopped", 0
    if w.paused and rules.paused_flows_are_held:
        wait(w, run, "paused", config.hold)
        return "paused", 0
    if not known and rules.unknown_flows_wait:
        run.unknown = min(run.unknown + 1, 2)
        wait(w, run, "flow", min(2 ** (run.unknown - 1), 2) * config.delay)
        return "unknown", 0
    return "ok", grant(w, run)


def hand_on(w: World, place: int) -> str:
    """Redirect a message as redirect_round.lua does; return ok, other or missing.

    Its caller does not play the flow, and has seen that others do.
    """
    run = w.runs[place]
    if run is None:
        return "missing"
    waits = run.phase == "waiting" and run.waiting_for in ("flow", "code")
    if not waits and w.rules.hand_on_checks_phase:
        return "other"
    message = (place, run.message)
    if message not in w.apart:
        if len(w.apart) < w.config.longest:
            w.apart = (*w.apart, message)
        else:
            w.cut = True
    run.phase, run.age, run.looked, run.unknown = "queued", 0, False, 0
    run.waiting_for, run.waiting_until = "", None
    run.handed_on = (run.epoch, run.step)
    due_at(w, run, run.grace if w.rules.hand_on_is_due else None)
    return "ok"


def grant(w: World, run: Run) -> int:
    """Write a granted claim's fields; return the token."""
    rules, config = w.rules, w.config
    run.token = next_token(w) if rules.tokens_from_one_counter else run.token + 1
    if rules.claim_counts_attempts:
        run.attempt += 1
    run.phase, run.lease_until, run.looked, run.unknown, run.spared = (
        "leased",
        config.lease,
        False,
        0,
        None,
    )
    run.was_spared = run.forfeited = False
    run.round_until = round_limit(w, run)
    due_at(w, run, config.lease)
    number = (run.first_number or run.number) if rules.cursor_by_the_first_number else run.number
    cursor = w.cursor[run.queue]
    if number > cursor or not rules.cursor_never_goes_back:
        w.cursor[run.queue] = number
    law("I3", w.cursor[run.queue] >= cursor, "the cursor of a list never goes back")
    return run.token


def next_token(w: World) -> int:
    """Return the next token of the common counter."""
    tokens = [slot.token for slot in w.slots] + [slot.fetched[1] for slot in w.slots]
    for other in w.runs:
        if other is not None:
            tokens += other.token, other.last_token, other.held_token
    return max(tokens) + 1


def round_limit(w: World, run: Run) -> int | None:
    """Return the latest time to which a lease that begins now is extended."""
    limits = [limit for limit in (w.config.round_timeout, run.deadline) if limit is not None]
    return min(limits) + w.config.lease if limits else None


def renew(w: World, run: Run) -> None:
    """Renew the run behind this round: parts/renewal.lua."""
    run.generation += 1
    if not w.rules.renewal_leaves_signals:
        run.taken = run.arrived
    if not w.rules.renewal_leaves_what_was_spent:
        run.spent = 0
    if not w.rules.renewal_goes_on_in_the_next_step:
        run.step -= 1


def commit(
    w: World,
    place: int,
    epoch: int,
    step: int,
    token: int,
    kind: str,
    seen: tuple[int, ...] = (),
    knows: int = 0,
) -> str:
    """Commit as commit_round.lua does; return its answer if it is ok, else fenced, missing or
    unread.

    ``seen``: the signals by which the round passed its waits, or that it read. ``knows``: the
    number of signals as of its claim.
    """
    run, rules, config = w.runs[place], w.rules, w.config
    if run is None:
        return "missing"
    if run.last_token == token and rules.commit_is_remembered:
        return run.last_answer
    if run.held_token == token:
        if rules.late_commit_lifts_the_hold:
            run.held_token, run.held_until = 0, None
            if run.phase == "waiting" and run.waiting_for == "hold":
                due_at(w, run, 0)
        return "fenced"
    if (
        (run.phase != "leased" and rules.commit_checks_phase)
        or (run.token != token and rules.commit_checks_token)
        or (run.step != step and rules.commit_checks_step)
        or (run.epoch != epoch and rules.commit_checks_epoch)
        or (not rules.commit_ignores_time and run.lease_until is not None and run.lease_until <= 0)
    ):
        return "fenced"
    if steering.is_refused(w, run, kind, seen):
        return "unread"
    done, paused = kind in DONE, kind in PAUSES
    retracts = kind == "try_again" and (
        run.intent == token or not rules.intent_is_taken_back_by_its_writer
    )
    stopping = (
        run.stop == "requested"
        and (kind not in ENDS or not rules.end_beats_stop)
        and rules.stop_beats_outcomes
    )
    free_lease(run)
    if done:
        run.log += 1
        end_waits(w, run, seen, kind)
        if config.heeds:
            steering.keep_heard(w, run, seen, knows)
        _step_done(w, run)
        run.spent += 1
    if kind == "renew":
        renew(w, run)
    if kind == "park":
        begin_wait(w, run, seen)
    if retracts or (kind in ("failed", "try_again") and not rules.intent_outlives_a_failure):
        run.intent = 0
    if kind == "try_again":
        run.begun = tuple([other for other in run.begun if other != token])
    if (done or paused) and kind != "end":
        _go_to(w, run, kind)
    run.ending |= kind in ("pause_end", "pause_unfinished")
    run.unfinished |= kind in ("end_unfinished", "pause_unfinished")
    if stopping:
        stop_here(w, run)
        answer = "stopped"
    elif kind == "renew":
        push(w, place, run)
        answer = "continued"
    elif kind == "next":
        if rules.commit_pushes:
            handed_on = run.handed_on
            push(w, place, run)
            run.handed_on = handed_on  # the short way of a plain round (parts/fast_continue.lua) takes nothing down
        else:
            run.phase = "queued"
            due_at(w, run, run.grace)
        answer = "continued"
    elif kind in ENDS:
        complete(w, run)
        answer = "completed"
    elif paused:
        pause(w, run)
        answer = "interrupted"
    elif kind == "park":
        answer = park(w, place, run)
    elif kind == "give_back":
        if not rules.give_back_counts_nothing:
            run.failures += 1
        if run.is_unmade and rules.give_back_brings_the_message:
            run.message = (run.epoch, run.step)
        push(w, place, run)
        answer = "queued"
    elif kind in ("failed", "try_again", "fatal", "busy", "misfit"):
        counts = kind not in ("busy", "misfit") or not rules.busy_counts_nothing
        run.failures += counts
        run.erred = True
        clock = "fitting" if kind == "misfit" and rules.misfits_have_a_clock else "patience"
        if getattr(run, clock) is None:
            setattr(run, clock, config.within)
        left = getattr(run, clock)
        spent = left is not None and left <= 0 and rules.patience_ends
        if (
            kind == "fatal"
            or spent
            or (counts and run.failures >= config.max_failures and rules.failures_are_bounded)
        ):
            fail(w, run)
            answer = "errored"
        else:
            shortened = left is not None and rules.waits_end_with_the_patience
            delay = min(config.delay, left or 0) if shortened else config.delay
            wait(w, run, {"busy": "provider", "misfit": "code"}.get(kind, "retry"), delay)
            answer = "waiting"
    else:  # damaged
        fail(w, run)
        answer = "errored"
    run.last_token, run.last_answer = token, answer
    return answer


def _step_done(w: World, run: Run) -> None:
    if w.rules.commit_consumes_the_answer:
        forget_interrupt(run)
    run.step += 1
    run.attempt, run.erred = 0, False
    if w.rules.patience_is_of_its_step:
        run.patience = run.fitting = None
    run.begun, run.returned = (), 0
    if w.rules.intent_ends_with_its_step:
        run.intent = 0
    if w.rules.results_end_with_their_step:
        run.result = 0
    if w.rules.commit_resets_the_bounds:
        run.failures = run.losses = 0


def _go_to(w: World, run: Run, kind: str) -> None:
    """Write the fields of the next node, its message, and the interrupt."""
    rules, paused = w.rules, kind in PAUSES
    if paused:
        forget_interrupt(run)
    if kind in DONE and kind != "pause_end":  # no node follows that one
        run.queue = run.step % len(w.lists)
    if rules.commit_stores_the_next_message:
        later = paused and rules.pause_stores_the_next_epochs_message
        fresh_message(w, run, (run.epoch + later, run.step))
    if paused:
        run.i_id = (run.epoch, run.step)
        if kind == "pause_here_deadline":
            run.i_wait = w.config.answer_within


def record_intent(w: World, place: int, epoch: int, step: int, token: int) -> str:
    """Record an intent as record_intent.lua does; return ok, fenced or missing."""
    run, rules = w.runs[place], w.rules
    if run is None:
        return "missing"
    if (
        (run.phase != "leased" and rules.intent_checks_phase)
        or (run.token != token and rules.intent_checks_token)
        or (run.step != step and rules.intent_checks_step)
        or (run.epoch != epoch and rules.intent_checks_epoch)
    ):
        return "fenced"
    if not run.intent or not rules.intent_stays_the_firsts:
        run.intent = token
    return "ok"


def record_once(w: World, place: int, step: int, token: int, own: bool) -> tuple[str, int]:
    """Record a result as record_result.lua does; return ok and the token whose result stands, stale
    or missing. ``own``: whether this is still the run of that submission.
    """
    run, rules = w.runs[place], w.rules
    if run is None:
        return "missing", 0
    if (not own and rules.results_are_of_their_run) or (
        run.step != step and rules.results_are_of_their_step
    ):
        return "stale", 0
    if not rules.results_are_not_fenced and (run.phase != "leased" or run.token != token):
        return "stale", 0
    if not run.result or not rules.first_result_stands:
        run.result = token
    return "ok", run.result


def extend(w: World, place: int, token: int) -> str:
    """Extend one lease as extend_leases.lua does; return ok, stop or lost."""
    run, rules = w.runs[place], w.rules
    if run is None or run.phase != "leased" or (run.token != token and rules.only_the_owner_beats):
        return "lost"
    extended = w.config.lease
    if run.round_until is not None and rules.beats_end_at_the_limit:
        extended = min(extended, run.round_until)
    run.lease_until = run.due = extended
    if rules.beat_ends_the_spare:
        run.spared = None
    run.was_spared = run.forfeited = False
    return "stop" if run.stop == "requested" and rules.beat_tells_of_the_stop else "ok"


def forfeit(w: World, place: int, epoch: int, step: int, token: int) -> str:
    """Release the lease as release_dead_lease.lua does; ``token``: of the dead process's claim, 0
    for none.
    """
    run, rules = w.runs[place], w.rules
    if run is None:
        return "missing"
    held = run.phase == "leased" and run.epoch == epoch and run.step == step
    if not held or (run.token != token and rules.only_the_dead_process_forfeits):
        return "not_held"
    assert run.lease_until is not None
    over = min(0, run.lease_until)
    run.lease_until = over
    if rules.forfeit_is_marked:
        run.spared = over
    run.forfeited = True
    due_at(w, run, over)
    return "ok"


def _alone(w: World, run: Run, only: bool) -> None:
    """Note a stop of the parent alone, unless another stop asks for more, before or after it."""
    family = w.family
    if family is None or run.phase in ENDED:
        return
    first = run.phase != "stopped" and run.stop != "requested"
    if only and first:
        w.family = family._replace(spared=True, alone=True)
    elif not only and family.spared:
        w.family = family._replace(alone=False)
        if run.phase == "stopped":
            if w.rules.later_stop_reaches_the_children:
                w.family = w.family._replace(spared=False)
                rests(w)
        elif w.rules.stop_of_all_beats_one_alone:
            w.family = w.family._replace(spared=False)


def request_stop(w: World, place: int, mode: str) -> str:
    """Request a stop as request_stop.lua does for a new operation; return finished PHASE, asked
    leased or stopped stopped.
    """
    run, rules = w.runs[place], w.rules
    if run is None:
        return "missing"
    _alone(w, run, mode == "only")
    if (run.phase in ENDED or run.phase == "stopped") and rules.stop_spares_what_has_ended:
        return f"finished {run.phase}"
    run.stop = "requested"
    if run.phase != "leased":
        stop_here(w, run)
    elif mode in ("graceful", "only"):
        return "asked leased"
    elif rules.stop_now_takes_the_lease:
        if rules.stop_now_holds_the_token:
            run.held_token, run.held_until = run.token, run.lease_until
        free_lease(run)
        stop_here(w, run)
    return "stopped stopped"


def resume(
    w: World, place: int, seen: tuple[int, int], i_id: Any, answer: bool, more: bool = False
) -> str:
    """Resume as resume_run.lua does for a new operation.

    ``seen``: epoch and step, ``i_id``: the interrupt, as the client saw them.
    """
    run, rules = w.runs[place], w.rules
    if run is None:
        return "missing"
    epoch, step = seen
    if (run.epoch != epoch and rules.resume_checks_epoch) or (
        run.step != step and rules.resume_checks_step
    ):
        return "stale"
    goes_on = more and run.unfinished
    if more and not goes_on:
        return "stale!"
    if run.phase in ENDED and not (goes_on and run.phase == "completed"):
        return f"finished {run.phase}"
    if run.phase in LIVE and rules.resume_checks_phase:
        return "running"
    is_open = run.i_id is not None and run.i_answer is None
    answers = is_open and (run.phase == "interrupted" or answer)
    if answers and i_id != run.i_id and rules.resume_checks_the_interrupt:
        return "stale!"  # remembered, unlike the one above
    if goes_on:
        if run.phase in ENDED and rules.retry_keeps_the_run:
            run.expires = False
        if rules.more_cycles_take_the_end_away:
            run.ending = run.unfinished = False
        forget_interrupt(run)
        take_down_passed_deadline(w, run)
    elif answers and run.ending and rules.resume_completes_what_has_ended:
        new_epoch(w, run, (epoch + 1, step))
        forget_interrupt(run)
        run.ending = False
        complete(w, run)
        return run.phase
    elif answers:
        run.i_answer = i_id or "none"
    start_again(w, place, run, (epoch + 1, step), (epoch + 2, step), answers)
    return run.phase


def retry(w: World, place: int, seen: tuple[int, int]) -> str:
    """Retry as retry_run.lua does for a new operation."""
    run, rules = w.runs[place], w.rules
    if run is None:
        return "missing"
    epoch, step = seen
    if (run.epoch != epoch and rules.resume_checks_epoch) or (
        run.step != step and rules.resume_checks_step
    ):
        return "stale"
    if run.phase != "errored":
        return f"running {run.phase}"
    if rules.retry_keeps_the_run:
        run.expires = False
    if w.topic is not None:
        topics.kept(w, run)
    take_down_passed_deadline(w, run)
    start_again(w, place, run, (epoch + 1, step), (epoch + 2, step))
    return run.phase


def offer_again(w: World, place: int) -> str:
    """Requeue one run as requeue_paused.lua does."""
    run = w.runs[place]
    if run is None or run.phase != "waiting" or run.waiting_for != "paused":
        return "other"
    run.waiting_until = run.due = 0
    return "due"


def delete(w: World, place: int) -> str:
    """Delete the run as delete_run.lua does."""
    run = w.runs[place]
    if run is None:
        return "missing"
    if run.phase not in ENDED and run.phase != "stopped":
        return f"live {run.phase}"
    if w.topic is not None:
        topics.deleted(w, place)
    w.runs[place] = None
    w.slots = [slot._replace(own=False) if slot.run == place else slot for slot in w.slots]
    return "ok"
