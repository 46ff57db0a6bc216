"""Verdicts on runs that wait for their time: asleep, backing off, held, after losses, paused."""

from __future__ import annotations

from worker.verdict import Verdict, VerdictCode
from worker.why.case import Case, iso, names
from worker.why.in_queue import nobody_plays_it
from worker.words.texts import waits_for_provider


def waiting(case: Case) -> Verdict:
    """What the run waits for, and until when."""
    reason, until = case.fields.get("waiting_for", ""), case.time("waiting_until")
    if reason == "flow":
        found = nobody_plays_it(case)
        if found:
            return found
    if until is not None and until <= case.now and not case.alive:
        return case.no_worker("Its waiting time is over, but nobody is there to see it")
    code, text = _told(case, reason)
    failures, losses = case.count("failures"), case.count("losses")
    since, more = case.since_phase, {}
    if code is VerdictCode.WAITING_FOR_A_PROVIDER:
        since, more = case.time_of_first_failure or since, {"reason": case.fields.get("last_error", "")}
    return case.say(code, text, since, until=iso(until), waiting_for=reason, failures=failures, losses=losses, **more)


def _told(case: Case, reason: str) -> tuple[VerdictCode, str]:
    match reason:
        case "start":
            return VerdictCode.SLEEPING, (
                f"It was submitted with a start time and begins {case.due}. To have it sooner, stop it and submit it again without one"
            )
        case "hold":
            return VerdictCode.HELD_AFTER_STOP_NOW, (
                "It was stopped with --now and resumed while the worker of the fenced round could still be at it; it goes on when "
                f"that one lets go, {case.due} at the latest. There is nothing to do"
            )
        case "loss":
            return VerdictCode.LOSSES, (
                f"Workers died or went silent under step {case.count('step')} (node {case.node}) {case.count('losses')} times in a row; "
                f"it is tried again {case.due}. Look at what this round does to its worker (memory, native code), or stop the run"
            )
        case "provider":
            error = case.fields.get("last_error", "no error was kept").rstrip(".")
            return VerdictCode.WAITING_FOR_A_PROVIDER, (
                f"It {waits_for_provider(case.time_of_first_failure, case.time('waiting_until'))}: {error}. No attempt is counted. "
                "There is nothing to do, unless the provider or its limits are yours"
            )
        case "paused":
            return VerdictCode.BACKING_OFF, f"Its flow {case.flow!r} was paused, and no longer is; it is offered again {case.due}"
        case "flow":
            return VerdictCode.BACKING_OFF, (
                f"A worker that does not play flow {case.flow!r} took its message; it is offered again {case.due}, and "
                f"{names(case.willing)} can take it. Give all workers of a role the same flows, and this does not happen"
            )
        case _:
            error = case.fields.get("last_error", "no error was kept").rstrip(".")
            failures = case.count("failures")
            return VerdictCode.BACKING_OFF, (
                f"Its round has failed {'once' if failures == 1 else f'{failures} times'} ({error}); it is tried again {case.due}. "
                "Mend the cause, or stop the run"
            )
