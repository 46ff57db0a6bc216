"""Verdicts on runs that no worker will touch: damaged, ended, waiting for a person."""

from __future__ import annotations

from flows.summaries import safe_text
from flows.values import canonical
from worker.errors import DamagedRun
from worker.record import UNFINISHED, Record
from worker.run import Run
from worker.verdict import Verdict, VerdictCode
from worker.waiting import Waiting
from worker.why.case import Case, iso
from worker.words.costs import amount

#: Characters of a flow's own words in a sentence; what to do comes after them, and must be seen.
TOLD = 300
#: Phases in which somebody must move the run, so that it must stand in the due set.
LIVE = ("queued", "leased", "waiting")
PHASES = (*LIVE, "interrupted", "stopped", "completed", "errored")


def quarantined(case: Case) -> Verdict | None:
    """The run is damaged: a worker found it so, the sweep did, or this look does."""
    damage = case.fields.get("error", "") if "quarantined" in case.fields else _damage(case)
    if damage is None:
        return None
    can_go_on = case.standing.damage is None and case.phase in (*LIVE, "interrupted")  # as far as the scripts see; a stop ends that
    remove = f"{f'holdfast stop {case.id} and ' if can_go_on else ''}holdfast delete {case.id}"
    return case.say(
        VerdictCode.QUARANTINED,
        f"What the server holds of this run is damaged, and nobody plays it ({damage.rstrip('.')}). "
        f"Find out who wrote to the server, restore its data, or submit the goal again. To remove what is left: {remove}",
        case.time("ended_at") or case.time("updated_at"),
        damage=damage,
    )


def _damage(case: Case) -> str | None:
    if case.standing.damage is not None and case.standing.damage != "phase":
        return f"{case.standing.damage} is not there, or is not what it should be"
    if case.phase not in PHASES:
        return f"its phase is {case.phase!r}, expected one of {', '.join(PHASES)}"
    if case.phase in LIVE and case.standing.due is None:
        return "it should be due at some time and is not: the sweep found it damaged and let go of it, or somebody took it from the due set"
    try:
        record = Record(case.fields)
        record.check()
        _ = record.state, record.step, record.epoch
    except DamagedRun as error:
        return str(error)
    return None


def ended(case: Case) -> Verdict:
    """Completed, errored or stopped: nothing more happens by itself."""
    fields = case.fields
    match case.phase:
        case "completed" if UNFINISHED in fields:
            used = case.count(UNFINISHED)
            text = f"It used up its {used} cycles and is unfinished. To go on: holdfast resume {case.id} --add cycles={used}"
            since = "ended_at"
        case "completed":
            text, since = f"It completed after {case.count('step')} rounds; holdfast show {case.id} has the answer", "ended_at"
        case "errored":
            error = fields.get("error", "no error was kept").rstrip(".")
            text, since = f"It ended errored: {safe_text(error, TOLD)}. Mend the cause, then: holdfast retry {case.id}", "ended_at"
        case _:
            by = f" by {fields['stop_by']}" if fields.get("stop_by") else ""
            because = f" ({fields['stop_reason']})" if fields.get("stop_reason") else ""
            text, since = f"It was stopped{by}{because}. To go on: holdfast resume {case.id}", "stopped_at"
    return case.say(VerdictCode.ENDED, text, case.time(since), status=case.phase, error=fields.get("error"))


def waiting_for_a_person(case: Case) -> Verdict:
    """Interrupted: an answer is due, from a person or, at its deadline, by default."""
    reason, due = case.fields.get("i_reason", ""), case.standing.due
    until = "" if due is None else f"; without an answer its deadline moves it {case.due}"
    waiting = _waiting(case)
    head, ways = _asked(waiting, reason, f"holdfast resume {case.id}")
    return case.say(
        VerdictCode.WAITING_FOR_A_PERSON,
        f"{head}{until}. {ways}",
        case.time("updated_at"),
        reason=reason,
        node=case.fields.get("i_node"),
        deadline=iso(due),
        kind=waiting.kind if waiting else "question",
    )


def _waiting(case: Case) -> Waiting | None:
    try:
        return Waiting.of(Run.of(Record(case.fields)))
    except DamagedRun:  # in what no transition and no round would look at now
        return None


def _asked(waiting: Waiting | None, reason: str, resume: str) -> tuple[str, str]:
    """What the run waits for, and the commands that answer it."""
    told = safe_text(reason, TOLD)
    match waiting.kind if waiting else "question":
        case "approval":
            return f"It waits for a person's approval of {_command(waiting)}", (
                f"To approve it: {resume} --approve. To refuse it, with words for the controller: {resume} --refuse 'why'. "
                f"To have it with other arguments: {resume} --edit JSON"
            )
        case "in_doubt":
            return f"A worker was lost while it carried out {_command(waiting)}, and nobody knows whether it has happened: find out", (
                f"To have it carried out (again): {resume} --answer '\"retry\"'. If it has happened: "
                f'{resume} --answer \'{{"result": ...}}\'. To tell the controller: {resume} --answer \'{{"tell": "..."}}\''
            )
        case "budget":
            assert waiting is not None and waiting.data is not None
            name, spent, limit = (waiting.data[each] for each in ("budget", "spent", "limit"))
            return f"Its budget of {name} is exhausted: {amount(name, spent)} of {amount(name, limit)} are spent", (
                f"To let it go on with as much again: {waiting.how()[0]}"
            )
        case "pause":
            return f"It waits for a person: {told}", f"Look at it, and let it go on: {resume}"
        case _:
            return f"It waits for a person: {told}", f"Answer it: {resume} --answer JSON"


def _command(waiting: Waiting | None) -> str:
    assert waiting is not None
    return safe_text(f"{waiting.command} {canonical(dict(waiting.args))}", TOLD)
