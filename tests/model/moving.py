"""parts/moves.lua: the moves that several transitions make."""

from __future__ import annotations

from typing import Any

from tests.model import topics
from tests.model.laws import law
from tests.model.state import Family, Run, World


def due_at(w: World, run: Run, time: int | None) -> None:
    if run.deadline is not None and run.phase != "leased":
        time = run.deadline if time is None else min(time, run.deadline)
    run.due = None if time is None else max(time, -w.config.overdue)


def push(w: World, place: int, run: Run) -> None:
    again = run.number > 0
    config = w.config
    if config.outbox or not again:
        used = [other.number for other in w.runs if other is not None and other.queue == run.queue]
        used += [number for number, _ in w.lines[run.queue]]
        run.number = max(*used, w.cursor[run.queue], 0) + 1
    if config.outbox:
        if not again:
            run.first_number = run.number
        w.handed.append((run.queue, place, run.message))
    else:
        put(w, run.queue, (place, run.message), consuming_end=again)
    if w.rules.push_ends_the_hand_on:
        run.handed_on = None
    run.phase, run.age, run.looked = "queued", 0, False
    run.waiting_for, run.waiting_until = "", None
    if w.rules.push_is_due:
        due_at(w, run, run.grace)
    else:
        run.due = None


def put(w: World, queue: int, message: tuple[int, Any], consuming_end: bool) -> None:
    """Put a message into the broker's list.

    A list of the model is short: a message that no longer fits is lost, as any may be.
    """
    line = w.lists[queue]
    if len(line) >= w.config.longest:
        w.cut = True
        return
    w.lists[queue] = (message, *line) if consuming_end else (*line, message)


def publish_all(w: World) -> None:
    """Publish the messages that scripts left to their callers."""
    for queue, place, message in w.handed:
        put(w, queue, (place, message), consuming_end=False)
    w.handed = []


def wait(w: World, run: Run, reason: str, delay: int) -> None:
    run.phase, run.waiting_for, run.waiting_until = "waiting", reason, delay
    due_at(w, run, delay)


def fresh_message(w: World, run: Run, message: tuple[int, int]) -> None:
    run.message, run.number, run.first_number, run.grace = message, 0, 0, w.config.grace


def free_lease(run: Run) -> None:
    run.lease_until = run.round_until = run.spared = None
    run.was_spared = run.forfeited = False


def forget_interrupt(run: Run) -> None:
    run.i_id = run.i_wait = run.i_until = run.i_answer = None


def rests(w: World) -> None:
    """End the family as end_family in parts/family.lua does: the children that go on are not wanted
    any more.
    """
    family = w.family
    if family is None or not has_group(family) or not w.rules.rest_makes_follow_up:
        return
    if family.started > sum(1 for end in family.ends if end):
        w.make_follow_up(w.rules.rest_walks)


def has_group(family: Family) -> bool:
    """Return whether the parent still has its group.

    A dropped group is forgotten at the end of the walk over its children.
    """
    return bool(family.group == "open" or (family.group == "dropped" and family.walk))


def _end(run: Run, phase: str) -> None:
    run.phase, run.stop, run.due, run.expires = phase, "none", None, True


def complete(w: World, run: Run) -> None:
    _end(run, "completed")
    if w.topic is not None:
        topics.completed(w, run)


def fail(w: World, run: Run) -> None:
    _end(run, "errored")
    rests(w)
    if w.topic is not None:
        topics.failed(w, run)


def stop_here(w: World, run: Run) -> None:
    run.phase, run.stop = "stopped", "stopped"
    if w.rules.stop_leaves_the_due_set:
        run.due = None
    if w.family is None or not w.family.spared:
        rests(w)


def pause(w: World, run: Run, again: bool = False) -> None:
    run.phase = "interrupted"
    if run.i_wait is not None and (not again or w.rules.asking_again_rearms):
        run.i_until = run.i_wait
    due_at(w, run, run.i_until)


def new_epoch(w: World, run: Run, message: tuple[int, int]) -> None:
    run.epoch += 1
    fresh_message(w, run, message)
    if w.rules.new_epoch_resets_the_bounds:
        run.failures = run.losses = 0
    if w.rules.patience_is_of_its_epoch:
        run.patience = run.fitting = None
    if w.rules.new_epoch_takes_the_stop_down:
        run.stop = "none"
    if not w.rules.intent_outlives_an_epoch:
        run.intent = 0
    if not w.rules.attempts_go_on:
        run.attempt = 0
    run.since_stop = None
    if w.family is not None:
        _take_back(w, w.family)
    goes_on = w.family is not None and has_group(w.family)
    if goes_on and w.rules.parent_goes_on_with_follow_up:
        w.make_follow_up(w.rules.going_on_walks)


def _take_back(w: World, family: Family) -> None:
    """Take back the children that a person continued meanwhile, as their parent goes on."""
    children = family.children
    if family.group == "open" and w.rules.going_on_takes_children_back:
        children = tuple("live" if life == "own" else life for life in children)
    w.family = family._replace(spared=False, alone=False, children=children)


def take_down_passed_deadline(w: World, run: Run) -> None:
    if (
        run.deadline is not None
        and run.deadline <= 0
        and w.rules.retry_takes_a_passed_deadline_down
    ):
        run.deadline = None


def start_again(
    w: World,
    place: int,
    run: Run,
    message: tuple[int, int],
    after: tuple[int, int],
    answered: bool = False,
) -> None:
    held = run.held_until if run.held_token and run.held_until is not None else 0
    early = run.not_before or 0
    rules = w.rules
    new_epoch(w, run, message)
    if run.i_id is not None and run.i_answer is None and not answered and rules.resume_asks_again:
        fresh_message(w, run, after if rules.asking_again_stores_the_message_after else message)
        pause(w, run, again=True)
    elif held > 0 and rules.resume_waits_for_the_hold:
        wait(w, run, "hold", held)
    elif early > 0 and rules.start_waits_for_its_time:
        wait(w, run, "start", early)
    else:
        push(w, place, run)
    law(
        "V1",
        run.failures == 0 and run.losses == 0 and run.patience is run.fitting is None,
        "a run that is taken up again has all its tries",
    )
