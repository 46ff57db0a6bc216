"""The laws: of every state, and of every move from one state to the next.

The names are the design's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.model.state import Run, World

RESTING = ("stopped", "completed", "errored")
RUNNING = ("queued", "leased", "waiting", "parked")
ENDED = ("completed", "errored")
#: Of these each is due at some time.
LIVELY = ("queued", "leased", "waiting")


class Violation(Exception):
    """A law was broken."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(f"{name}: {text}")
        self.law = name


def law(name: str, holds: object, text: str, *values: object) -> None:
    """Raise the Violation of law ``name`` unless it holds.

    ``values`` go into the text only then: this is asked millions of times.
    """
    if not holds:
        raise Violation(name, text.format(*values))


def lawful(w: World, place: int, run: Run) -> None:
    """Check the laws of every state of every run."""
    phase, due = run.phase, run.due
    law(
        "I2",
        run.step == w.config.begins + run.log,
        "the run began at step {}, is at step {} and {} rounds have been committed",
        w.config.begins,
        run.step,
        run.log,
    )
    law("C12", run.spent == run.log, "it has spent {} in {} rounds", run.spent, run.log)
    promised = phase in LIVELY or (
        phase == "interrupted" and (run.i_wait is not None or run.deadline is not None)
    )
    if phase == "parked":
        _lawfully_parked(w, run)
        promised = is_over(w, run) or run.wait_until is not None or run.deadline is not None
    law("V2", (due is not None) == promised, "{}, and due at {}: an orphan, or a ghost", phase, due)
    law(
        "V2",
        due is None or due <= w.config.farthest,
        "due in {} ticks: later than anything is promised",
        due,
    )
    leased = phase == "leased"
    law(
        "I5",
        (run.lease_until is not None) == leased,
        "{}, and a lease until {}",
        phase,
        run.lease_until,
    )
    if phase in RUNNING:
        # The lease of a run that was asked to be unmade is over and not taken away, until its
        # message arrives; it is looked at again soon.
        asked = (
            leased
            and run.is_unmade
            and run.lease_until is not None
            and due is not None
            and run.lease_until <= min(due, 0)
            and due <= w.config.unmade
        )
        law(
            "V2",
            not leased or due == run.lease_until or asked,
            "due at {}, and its lease ends at {}",
            due,
            run.lease_until,
        )
        law(
            "I6",
            run.message == (run.epoch, run.step) or (run.is_unmade and phase != "queued"),
            "the stored message {} is not for epoch {}, step {}",
            run.message,
            run.epoch,
            run.step,
        )
        law(
            "I10",
            run.i_id is None or run.i_answer is not None,
            "it goes on though its question was not answered",
        )
    elif phase == "interrupted":
        law(
            "I6",
            run.message == (run.epoch + 1, run.step),
            "the stored message {} will not begin the epoch after {}",
            run.message,
            run.epoch,
        )
        law(
            "I10",
            run.i_id is not None and run.i_answer is None,
            "it waits for an answer that it has",
        )
    law(
        "I10",
        run.i_answer is None or run.i_answer == run.i_id,
        "question {} is answered by what was meant for {}",
        run.i_id,
        run.i_answer,
    )
    law(
        "I8",
        (phase == "stopped") == (run.stop == "stopped"),
        "{}, and its stop is {}",
        phase,
        run.stop,
    )
    law("I8", run.stop != "requested" or leased, "{}, and its stop is still only asked for", phase)
    law(
        "L1",
        not run.begun or run.intent,
        "the step's command may have been begun, and the next attempt will not know",
    )
    law(
        "L1",
        run.begun or not run.intent,
        "nothing was begun in this step, and an attempt will think so",
    )
    law(
        "L2", run.result == run.returned, "an attempt was told another result than the next will be"
    )
    law("I11", run.expires == (phase in ENDED), "{}, and its keys expire: {}", phase, run.expires)
    law("I16", run.failures <= w.config.max_failures, "{} failures", run.failures)
    law("I16", run.losses <= w.config.max_losses + 1, "{} losses", run.losses)
    if leased:
        limited = w.config.round_timeout is not None or run.deadline is not None
        law(
            "I16",
            (run.round_until is not None) == limited,
            "leased, and the round is limited until {}",
            run.round_until,
        )
        passed = w.config.outbox or 0 < run.number <= w.cursor[run.queue]
        law(
            "V4",
            passed,
            "leased under number {}, and its list is at {}",
            run.number,
            w.cursor[run.queue],
        )


def joined(w: World) -> bool:
    """Return whether the children that the parent waits for have ended, as many and as well as it
    needs.
    """
    family, number = w.family, w.config.children
    if family is None or family.group != "open":
        return False
    good, bad = family.ends.count("ok"), family.ends.count("bad")
    return bool(
        {
            "all": good == number or bad,
            "first": good or bad == number,
            "settled": good + bad == number,
        }[w.config.join]
    )


def is_started(w: World, step: int) -> bool:
    """Return whether the wait is for the start of children alone, and they are written down."""
    return bool(w.config.outlives and step == 0 and w.family.group == "open")


def is_over(w: World, run: Run) -> bool:
    """Return whether a parked run's wait is over."""
    if w.config.children:
        return joined(w) or is_started(w, run.step)
    timed = run.wait_until is not None and run.wait_until <= 0
    return run.wait in run.over or timed or 0 < run.need <= run.arrived - run.taken


def _lawfully_parked(w: World, run: Run) -> None:
    soon = run.due is not None and run.due <= w.config.unmade
    law(
        "C3",
        not is_over(w, run) or soon,
        "its wait is over, and it is due at {}",
        run.due,
    )
    law(
        "C9",
        (run.is_unmade or bool(w.config.children)) and not run.number,
        "parked, and it has a message for {}",
        run.message,
    )


def timely(w: World) -> None:
    """Check every message: none exists before the commit that it follows from."""
    for line in (*w.lists, w.apart):
        for place, (epoch, step) in line:
            run = w.runs[place]
            early = run is not None and (epoch > run.epoch or step > run.step)
            law("I6", not early, "the message of epoch {}, step {} is there early", epoch, step)


def moved(before: Run, after: Run, name: str, kind: str) -> None:
    """Check every move of one run; ``name`` and ``kind`` say which move it was."""
    same_step = after.step == before.step
    law(
        "I3",
        after.epoch >= before.epoch and after.step >= before.step and after.token >= before.token,
        "an epoch, step or token fell",
    )
    law(
        "I1",
        same_step or (after.step == before.step + 1 and name in COMMITS),
        "{} moved step {} to {}",
        name,
        before.step,
        after.step,
    )
    law("I3", after.token == before.token or name in CLAIMS, "{} made a token", name)
    law(
        "I16", after.attempt >= before.attempt or not same_step, "the attempts of a step began anew"
    )
    parks = name in COMMITS and same_step and after.wait >= 0
    forgot = (
        same_step
        and not parks
        and after.epoch == before.epoch
        and after.failures + after.losses < before.failures + before.losses
    )
    law("I16", not forgot, "{} made it forget its failures or losses", name)
    was, now = before.phase, after.phase
    if was == now:
        return
    by_person = name in PEOPLE
    given_more = by_person and kind == "resume:more" and before.unfinished
    law("I7", was != "completed" or given_more, "{} made a completed run {}", name, now)
    law(
        "L4",
        now != "completed" or name in COMMITS or (by_person and before.ending),
        "{} completed a run that was {}",
        name,
        was,
    )
    law(
        "I7",
        was != "errored" or (by_person and kind == "retry"),
        "{} made an errored run {}",
        name,
        now,
    )
    law(
        "I8",
        was != "stopped" or (by_person and kind.startswith("resume")),
        "{} made a stopped run {}",
        name,
        now,
    )
    taken_up = was in ENDED or was == "stopped" or (was == "interrupted" and now in RUNNING)
    law(
        "L4",
        now not in RUNNING or not (after.ending or after.unfinished),
        "a run goes on whose last round is committed",
    )
    law(
        "I7",
        not taken_up or after.epoch == before.epoch + 1,
        "a run that was {} goes on in the same epoch",
        was,
    )
    law(
        "V3",
        was not in ENDED or after.deadline is None or after.deadline > 0,
        "it was retried only to end of its old deadline",
    )
    law("I4", now != "leased" or was == "queued", "a run that was {} was claimed", was)


#: The moves that may claim, the moves that may commit, and the moves of people.
CLAIMS = ("take", "take_apart", "again", "resend_claim", "fetch", "deliver", "stay")
COMMITS = ("commit", "fetch", "stay")
PEOPLE = ("op", "send")
