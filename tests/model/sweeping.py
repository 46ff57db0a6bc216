"""sweep_due.lua: looks at runs whose time has come, and sends overdue messages again."""

from __future__ import annotations

from tests.model import waiting
from tests.model.laws import law
from tests.model.moving import due_at, fail, free_lease, new_epoch, push, stop_here, wait
from tests.model.state import ENDED, Run, World

#: The sweep's queue length if the broker does not answer.
NO_ANSWER = -1


def sweep(w: World, answer: int | None = None, soon: int | None = None) -> list[tuple[int, str]]:
    """Sweep; return the result for each run looked at.

    ``answer`` (outbox): the broker's length of each queue, NO_ANSWER or 0; None: the truth.
    ``soon``: a run that is looked at now, as its message may have been in the hands of a process
    that died.
    """
    _mind_the_silence(w)
    lengths = [len(line) if answer is None else answer for line in w.lists]
    for queue, line in enumerate(w.lines):
        if line and lengths[queue] != NO_ANSWER and w.rules.lines_are_promoted:
            _promote(w, queue, lengths[queue])
    brought = {place for place, _, _ in w.made} | ({soon} if soon is not None else set())
    for place in brought:
        run = w.runs[place]
        if run is not None and run.due is not None:
            run.due = min(run.due, 0)
    due = [
        (run.due, place)
        for place, run in enumerate(w.runs)
        if run is not None and run.due is not None and run.due <= 0
    ]
    floor = -w.config.overdue
    w.cut |= [time for time, _ in due].count(
        floor
    ) > 1  # which of them has waited for longer is no longer known
    report: list[tuple[int, str]] = []
    told: list[tuple[int, int, int]] = []
    places = _in_order(w, due, brought)
    leased = [place for _, place in due if w.runs[place].phase == "leased"]  # type: ignore[union-attr]
    hidden = [place for place in leased if place not in places[: w.config.batch]]
    law(
        "V1",
        not hidden
        or all(place in leased or place in brought for place in places[: w.config.batch]),
        "a lapsed lease waits behind what is no lease",
    )
    for place in places[: w.config.batch]:
        run = w.runs[place]
        assert run is not None
        word = _look(w, place, run, lengths)
        report.append((place, word))
        if word == "unmade":
            told.append((place, run.epoch, run.step))
        law(
            "V1",
            run.due is None or run.due > 0,
            "a run that was looked at ({}) hides those behind it",
            word,
        )
    w.made = told
    return report


def _in_order(w: World, due: list[tuple[int, int]], brought: set[int]) -> list[int]:
    """Sort the due runs if the batch is smaller: first the runs that the caller names, then lapsed
    leases, then the others; the oldest first.
    """
    oldest = [place for _, place in sorted(due)]
    if len(oldest) <= w.config.batch or not w.rules.leases_are_swept_first:
        return oldest
    return sorted(oldest, key=lambda place: (place not in brought, w.runs[place].phase != "leased"))  # type: ignore[union-attr]


def forget(w: World) -> None:
    """Forget the messages made: the worker that swept dies before it sweeps again, and another
    sweeps next.
    """
    w.made = []


def _is_unmade(w: World, place: int, run: Run) -> bool:
    """Return whether a message is to be pushed that no process has made or brings."""
    if not run.is_unmade:
        return False
    for made, *pair in w.made:
        if made == place and (pair == [run.epoch, run.step] or not w.rules.made_is_of_the_round):
            run.message = (pair[0], pair[1])
            return False
    due_at(w, run, w.config.unmade)
    return True


def _mind_the_silence(w: World) -> None:
    if not w.config.silence:
        return
    if -w.swept_at > w.config.lease / 2 or w.swept_at > 0:
        w.silence = (min(0, w.swept_at), 0)
    w.swept_at = 0


def _was_silent(w: World, time: int) -> bool:
    if w.silence is None or not w.rules.silence_spares:
        return False
    after = w.config.lease / 2 if w.rules.silence_lasts_half_a_lease_more else 0
    return w.silence[0] <= time <= w.silence[1] + after


def _promote(w: World, queue: int, length: int) -> None:
    for number, place in w.lines[queue]:
        if length and number > w.cursor[queue]:
            continue
        w.lines[queue] -= {(number, place)}
        run = w.runs[place]
        if (
            run is not None
            and run.phase == "queued"
            and run.queue == queue
            and run.number == number
            and run.due is not None
        ):
            run.due = min(run.due, 0)


def _look(w: World, place: int, run: Run, lengths: list[int]) -> str:
    rules = w.rules
    if run.phase in ENDED or run.phase == "stopped":
        run.due = None
        return "removed"
    if run.phase == "leased":
        return _sweep_leased(w, place, run)
    if run.deadline is not None and run.deadline <= 0 and rules.overdue_runs_end:
        fail(w, run)
        return "errored"
    if run.phase == "queued":
        return _sweep_queued(w, place, run, lengths)
    if run.phase == "waiting":
        still = (
            run.waiting_until is not None
            and run.waiting_until > 0
            and not (run.waiting_for == "hold" and not run.held_token)
        )
        if still and rules.waits_are_waited:
            due_at(w, run, run.waiting_until)
            return "in_line"
        if run.waiting_for == "paused" and w.paused and rules.paused_runs_send_nothing:
            wait(w, run, "paused", w.config.hold)
            return "in_line"
        law(
            "V4",
            run.waiting_for != "paused" or not w.paused,
            "a message is sent for a run of a paused flow",
        )
        if rules.sweep_asks_for_the_message and _is_unmade(w, place, run):
            return "unmade"
        run.held_token, run.held_until = 0, None
        push(w, place, run)
        return "woken"
    if run.phase == "parked":
        return waiting.sweep(w, place, run, _is_unmade)
    if run.i_until is None or run.i_until > 0:
        due_at(w, run, run.i_until)
        return "in_line"
    run.i_answer = run.i_id
    if rules.default_begins_an_epoch:
        new_epoch(w, run, run.message)
    push(w, place, run)
    return "answered"


def _sweep_leased(w: World, place: int, run: Run) -> str:
    rules, config, lease_until = w.rules, w.config, run.lease_until
    assert lease_until is not None
    if lease_until > 0 and rules.sweep_only_takes_lapsed_leases:
        due_at(w, run, lease_until)
        return "in_line"
    overran = run.round_until is not None and run.round_until <= 0
    may_be_spared = run.spared != lease_until or not rules.silence_spares_once
    if (
        _was_silent(w, lease_until)
        and may_be_spared
        and not (overran and rules.overran_is_not_spared)
    ):
        law("V5", not run.was_spared, "a lease is spared twice, so the dead are never freed")
        law("V5", not run.forfeited, "a lease whose owner is known to be dead is spared")
        law("V5", not overran, "a round past its own limit is spared")
        run.lease_until = run.spared = config.lease
        run.was_spared = True
        due_at(w, run, config.lease)
        return "spared"
    stopping = run.stop == "requested" and rules.sweep_stops_where_asked
    if not stopping and rules.sweep_asks_for_the_message and _is_unmade(w, place, run):
        return "unmade"
    free_lease(run)
    if not rules.intent_outlives_a_loss:
        run.intent = 0
    if stopping:
        stop_here(w, run)
        return "stopped"
    overdue = run.deadline is not None and run.deadline <= 0
    if overran and rules.overran_is_a_failure:
        run.failures += 1
        run.erred = True
        if overdue or run.failures >= config.max_failures:
            fail(w, run)
            return "errored"
        wait(w, run, "retry", config.delay)
        return "overran"
    law("I16", not overran, "a round that ignored its limit is counted as a lost worker")
    before = run.losses
    if rules.sweep_counts_losses:
        run.losses += 1
    law("I16", run.losses > before, "a lost worker is not counted")
    if (run.losses > config.max_losses and rules.losses_are_bounded) or overdue:
        fail(w, run)
        return "errored"
    if run.losses == 1 or not rules.later_losses_wait:
        law("I16", run.losses == 1, "a run that keeps losing workers does not wait")
        push(w, place, run)
        return "freed"
    wait(w, run, "loss", config.delay)
    return "delayed"


def _sweep_handed_on(w: World, place: int, run: Run) -> str:
    """Return the result for a run whose message is in the list of workers that play the flow, or
    was taken from there; or none of them lives any more.
    """
    rules, message = w.rules, (place, run.message)
    if message in w.apart and w.able and rules.sweep_looks_where_it_was_handed_on:
        run.looked = False
        due_at(w, run, run.grace)
        return "in_line"
    if not w.able and not rules.sweep_takes_back_from_the_dead:
        due_at(w, run, run.grace)
        return "in_line"
    if w.able and not run.looked:
        run.looked = True
        due_at(w, run, run.grace)
        return "marked"
    law(
        "V4",
        message not in w.apart or not w.able,
        "a message is sent again though it is in line where it was handed on",
    )
    law(
        "V4",
        message not in w.lists[run.queue][: w.config.searched],
        "a message is sent again though it is in line",
    )
    if not w.able and message in w.apart:
        found = len(w.apart) - 1 - w.apart[::-1].index(message)
        w.apart = w.apart[:found] + w.apart[found + 1 :]
    push(w, place, run)
    return "resent"


def _sweep_queued(w: World, place: int, run: Run, lengths: list[int]) -> str:
    rules, config = w.rules, w.config
    length, message = lengths[run.queue], (place, run.message)
    if length == NO_ANSWER and rules.silent_broker_judges_nobody:
        due_at(w, run, run.grace)
        return "in_line"
    law("V4", length != NO_ANSWER, "a run is judged though the broker says nothing of its message")
    if run.handed_on == (run.epoch, run.step) or (
        run.handed_on and not rules.hand_on_is_of_its_round
    ):
        return _sweep_handed_on(w, place, run)
    if length > 0 and run.number > w.cursor[run.queue] and rules.sweep_believes_the_cursor:
        run.looked = False
        w.lines[run.queue] = frozenset(
            {entry for entry in w.lines[run.queue] if entry[1] != place} | {(run.number, place)}
        )
        if run.age >= config.oldest:
            w.cut = True
        if rules.sweep_moves_what_it_looks_at:
            due_at(w, run, max(run.grace, run.age))
        return "in_line"
    at_the_end = w.lists[run.queue][: config.searched]
    if not config.outbox and rules.sweep_looks_into_the_list and message in at_the_end:
        run.looked = False
        due_at(w, run, run.grace)
        return "in_line"
    if not run.looked and rules.sweep_marks_before_it_sends:
        run.looked = True
        due_at(w, run, run.grace)
        return "marked"
    law("V4", run.looked, "a message is sent again though a worker may have popped it this instant")
    in_the_list = message in (w.lists[run.queue] if config.in_order else at_the_end)
    law(
        "V4",
        not in_the_list or (config.outbox and not config.in_order),
        "a message is sent again though it is in line",
    )
    if length > config.searched and not config.outbox:
        run.grace = min(2 * run.grace, config.oldest)
    push(w, place, run)
    return "resent"
