"""Verdicts on runs whose message is out: in line, lost, or for nobody."""

from __future__ import annotations

from worker.verdict import Verdict, VerdictCode
from worker.why.case import Case, iso, names, number


def nobody_plays_it(case: Case) -> Verdict | None:
    """No live worker takes this run's round: none is of the role, none knows the flow, or none has it enabled."""
    if not case.of_role:
        return case.no_worker("Its next round waits")
    if case.willing:
        return None
    refusing = [worker for worker in case.of_role if worker.refuses(case.flow)]
    if refusing:
        return case.say(
            VerdictCode.FLOW_NOT_ENABLED,
            f"Flow {case.flow!r} runs shell commands of whoever submits it, and no live {case.role} worker has it enabled "
            f"({names(refusing)} could play it). Start one that has: holdfast worker --enable {case.flow}",
            case.since_phase,
            flow=case.flow,
            workers=[worker.name for worker in refusing],
        )
    return case.say(
        VerdictCode.UNKNOWN_FLOW,
        f"No live {case.role} worker knows flow {case.flow!r} (there are {names(case.of_role)}). Start one that does; "
        "HOLDFAST_FLOW_MODULES names the modules with flows",
        case.since_phase,
        flow=case.flow,
        workers=[worker.name for worker in case.of_role],
    )


def message_lost(case: Case) -> Verdict | None:
    """The sweep has looked for the message in vain, and looks once more before it sends it again."""
    if case.fields.get("looked") != "1":
        return None
    return case.say(
        VerdictCode.MESSAGE_LOST,
        f"Its message has left the queue and nobody has claimed it: most likely it was lost, and it is sent again {case.due}. "
        "There is nothing to do; if it happens often, look at the workers' logs and at holdfast doctor",
        case.since_phase,
        sent_again=iso(case.standing.due),
        number=case.count("number"),
    )


def broker_silent(case: Case) -> Verdict | None:
    """The broker is not the server that was just read, and does not answer."""
    if case.standing.length is not None:
        return None
    return case.say(
        VerdictCode.SERVER_SILENT,
        "Its message waits at the broker, or is still to be sent there, and the broker does not answer. Nothing is lost: it goes on by "
        "itself once the broker is back. Look at the broker, and at holdfast doctor",
        case.since_phase,
        silent_from=None,
        silent_until=None,
    )


def in_line(case: Case) -> Verdict:
    """The message stands in line: at its place among the next ones, further back by its number."""
    standing, number_of_run = case.standing, case.count("number")
    cursor, pushed = (int(number(standing.queues.get(f"{case.queue}:{name}")) or 0) for name in ("cursor", "pushed"))
    length = standing.length or 0
    position = standing.place if standing.place is not None else min(max(0, number_of_run - cursor), length)
    if case.fields.get("handed_to", "").startswith(f"{case.count('epoch')} {case.count('step')} "):
        text = (
            f"A worker that does not play flow {case.flow!r} took its message and handed it on to workers that do ({names(case.willing)}); "
            "one of them takes it as soon as it has a place free. There is nothing to do"
        )
    elif position:
        slots = sum(int(worker.info.get("concurrency", 0)) for worker in case.willing)
        text = (
            f"It is number {position} of {length} in line for {names(case.willing)}, {slots} rounds at once. "
            "There is nothing to do; more workers, or more rounds at once (--concurrency), shorten the line"
        )
    else:
        text = (
            "Its message has just been taken from the queue, or was lost on the way; if nobody claims it, that is noticed "
            f"{case.due}. There is nothing to do"
        )
    return case.say(
        VerdictCode.IN_LINE,
        text,
        case.since_phase,
        position=position,
        lag=max(0, pushed - cursor),
        length=length,
        number=number_of_run,
        cursor=cursor,
    )
