"""Verdicts on runs that are queued, running, or in a timed wait.

Reasons of a timed wait are a start time, a retry, a stop and lost workers, for example. Other
verdicts cover running rounds, paused flows, and messages that are queued, lost or not for any live
worker. They also cover a state server, a broker or workers that do not respond.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from perdure.flows.core.durations import duration
from perdure.flows.core.summaries import ended
from perdure.worker.diagnostics.run_case import RunCase, iso, names, number
from perdure.worker.domain.fleet import WorkerInfo
from perdure.worker.domain.record import BUILD, Record
from perdure.worker.domain.verdict import Verdict, VerdictCode
from perdure.worker.presentation.text import waits_for_code, waits_for_provider


def no_worker_runs_it(case: RunCase) -> Verdict | None:
    """Return the verdict that no live worker can run the next round.

    The verdict has one of three reasons. No live worker has the round's role. Or workers of the
    role have the flow, but it is not enabled in any of them. Or each worker of the role lacks the
    flow, or something that the flow needs.

    Returns:
        None if a live worker can run the next round.
    """
    if not case.of_role:
        return case.no_worker("Its next round waits")
    if case.willing:
        return None
    refusing = [worker for worker in case.of_role if worker.refuses(case.flow)]
    if refusing:
        able = [worker for worker in refusing if worker.lacks(case.flow) is None]
        lack = "" if able else str(refusing[0].lacks(case.flow)).rstrip(".")
        could = (
            f"({names(able)} could run it). Start a worker with"
            if able
            else f"({names(refusing)} could not run it either: {lack}). "
            "Provide what it needs, and start a worker with"
        )
        return case.say(
            VerdictCode.FLOW_NOT_ENABLED,
            f"Flow {case.flow!r} runs shell commands of its submitter, "
            f"and no live {case.role} worker has it enabled {could}: "
            f"perdure worker --enable {case.flow}",
            case.since_phase,
            flow=case.flow,
            workers=[worker.name for worker in refusing],
            **({"missing": lack} if lack else {}),
        )
    lacking = [worker for worker in case.of_role if worker.lacks(case.flow)]
    return case.say(
        VerdictCode.UNKNOWN_FLOW,
        f"No live {case.role} worker can run flow {case.flow!r}. {names(lacking)} has it: "
        f"{lacking[0].lacks(case.flow)}"
        if lacking
        else f"No live {case.role} worker knows flow {case.flow!r} "
        f"(live: {names(case.of_role)}). "
        "Start a worker that does: name the flow's module in PERDURE_FLOW_MODULES",
        case.since_phase,
        flow=case.flow,
        workers=[worker.name for worker in case.of_role],
    )


def message_lost(case: RunCase) -> Verdict | None:
    """Return the verdict that the run's message is probably lost. None if it is not.

    A sweep did not find the message in its queue. The sweeper checks once more before it publishes
    the message again.
    """
    if case.fields.get("looked") != "1":
        return None
    return case.say(
        VerdictCode.MESSAGE_LOST,
        "Its message has left the queue, but no worker has claimed it. "
        f"It was probably lost, and is sent again {case.due}. "
        "There is nothing to do; if it happens often, check the workers' logs and: perdure doctor",
        case.since_phase,
        sent_again=iso(case.standing.due),
        number=case.count("number"),
    )


def broker_silent(case: RunCase) -> Verdict | None:
    """Return the verdict that the broker does not answer.

    Return None if it answers, or if the state server itself is the broker.
    """
    if case.standing.length is not None:
        return None
    return case.say(
        VerdictCode.SERVER_SILENT,
        "Its message waits at the broker, or must still be sent there, "
        "and the broker does not answer. Nothing is lost: the run "
        "continues by itself once the broker is back. Check the broker, and: perdure doctor",
        case.since_phase,
        silent_from=None,
        silent_until=None,
    )


def in_line(case: RunCase) -> Verdict:
    """Return the verdict that the run's message waits in a queue.

    The verdict has the message's position. The position is exact if the message was found among the
    next messages of the queue. Otherwise it is estimated from the message's number. If the estimate
    is 0, the sentence says that a worker has just taken the message, or that it was lost.
    """
    standing, number_of_run = case.standing, case.count("number")
    cursor, pushed = (
        int(number(standing.queues.get(f"{case.queue}:{name}")) or 0)
        for name in ("cursor", "pushed")
    )
    length = standing.length or 0
    position = (
        standing.place
        if standing.place is not None
        else min(max(0, number_of_run - cursor), length)
    )
    if case.fields.get("handed_to", "").startswith(f"{case.count('epoch')} {case.count('step')} "):
        place = (
            f"It is number {position} of {length} that wait for them. "
            if standing.place is not None
            else ""
        )
        text = (
            f"A worker that does not run flow {case.flow!r}, or whose code does not fit the run, "
            f"took its message and passed it to others ({names(case.willing)}). {place}"
            "One of them takes it as soon as it has a free slot. There is nothing to do"
        )
    elif position:
        slots = sum(int(worker.info.get("concurrency", 0)) for worker in case.willing)
        text = (
            f"It is number {position} of {length} in line for {names(case.willing)} with {slots} "
            "slots. There is nothing to do; more workers or more slots per worker "
            "(--concurrency) shorten the line"
        )
    else:
        text = (
            "A worker has just taken its message from the queue, or the message was lost. "
            "If no worker claims it, the sweep "
            f"notices {case.due}. There is nothing to do"
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


def silent(case: RunCase) -> Verdict | None:
    """Return the verdict that the state server or all workers do not respond.

    There are two cases. No worker has swept for half a lease, although live workers have sent
    heartbeats. Or such a period without sweeps ended less than a lease ago, and the worker of the
    run's round has sent no heartbeat since then.

    Returns:
        The verdict, or None in neither case.
    """
    queues = case.standing.queues
    swept, begin, end = (
        number(queues.get(name)) for name in ("swept_at", "silent_from", "silent_until")
    )
    if swept is None and case.alive:  # Workers that have just started have not swept yet.
        swept = max(worker.started for worker in case.alive)
    if case.alive and swept is not None and case.now - swept > case.lease / 2:
        return case.say(
            VerdictCode.SERVER_SILENT,
            f"No worker has swept for {case.ago(swept)}: the server or the network stood "
            "still, or all workers just died. The run "
            "continues by itself once a worker sweeps again. Check the server (perdure "
            "doctor) and the workers (perdure workers)",
            swept,
            silent_from=iso(swept),
            silent_until=None,
        )
    # There was no silence, or only the time before the first sweep ever, when no worker existed
    # yet.
    if not begin:
        return None
    if case.phase != "leased" or end is None or case.beat > end or case.now - end > case.lease:
        return None
    return case.say(
        VerdictCode.SERVER_SILENT,
        f"The server or all workers stood still for {duration((end - begin) / 1000)}, "
        f"and {case.owner}, which ran this round, has sent no heartbeat since. "
        "Its lease is extended once. Without a heartbeat another worker gets the round, "
        f"{case.due} at the earliest. Check the server: perdure doctor",
        begin,
        silent_from=iso(begin),
        silent_until=iso(end),
        owner=case.owner,
    )


def leased(case: RunCase) -> Verdict:
    """Return the verdict on a round in flight. Its worker may have stopped responding."""
    until = case.time("lease_until") or 0.0
    head = (
        f"Running on {case.owner}: step {case.count('step')} (node {case.node}, "
        f"attempt {case.count('attempt')})"
    )
    if until <= case.now and not case.of_role:
        return case.no_worker(f"{case.owner} ran step {case.count('step')} and went silent")
    if until <= case.now:
        text = (
            f"{head}, but the worker went silent and its lease expired: "
            f"the next sweep requeues the round. Check {case.owner}"
        )
    elif case.fields.get("stop_current_execution") == "stop_requested":
        text = (
            f"{head}. A stop was requested and takes effect when this round ends. "
            f"To stop at once: perdure stop {case.id} --now"
        )
    else:
        text = (
            f"{head}, last heartbeat {case.ago(case.beat)} ago. There is nothing to do; "
            f"if it takes too long: perdure stop {case.id} --now"
        )
    return case.say(
        VerdictCode.LEASED,
        text,
        case.time("claimed_at"),
        owner=case.owner,
        last_beat=iso(case.beat),
        lease_until=iso(until),
        node=case.node,
        attempt=case.count("attempt"),
        stop_requested=case.fields.get("stop_current_execution") == "stop_requested",
    )


def flow_paused(case: RunCase) -> Verdict | None:
    """Return the verdict that the run's flow is paused. None if it is not.

    A paused flow's runs do not start a round. The run either waits already, or will wait when a
    worker takes its message.
    """
    if case.standing.paused is None:
        return None
    info = json.loads(case.standing.paused)
    by, because = (
        f" {word} {info[name]}" if info.get(name) else ""
        for word, name in (("by", "by"), ("because:", "reason"))
    )
    return case.say(
        VerdictCode.FLOW_PAUSED,
        f"Flow {case.flow!r} is paused{by}{because}; no round of its runs starts. "
        f"To continue: perdure flows unpause {case.flow}",
        info.get("at"),
        flow=case.flow,
        by=info.get("by"),
        reason=info.get("reason"),
        paused_at=iso(info.get("at")),
    )


def waiting(case: RunCase) -> Verdict:
    """Return the verdict on a run in a timed wait: reason and end.

    The run waits for a retry, its start time or a model provider, for example. If no live worker
    can continue it after the wait, the verdict says that instead.
    """
    reason, until = case.fields.get("waiting_for", ""), case.time("waiting_until")
    if reason == "flow":
        unserved = no_worker_runs_it(case)
        if unserved:
            return unserved
    if until is not None and until <= case.now and not case.alive:
        return case.no_worker("Its waiting time is over")
    code, text = _reason_text(case, reason)
    failures, losses = case.count("failures"), case.count("losses")
    since: float | None = case.since_phase
    more: dict[str, Any] = {}
    if code is VerdictCode.WAITING_FOR_A_PROVIDER:
        since, more = (
            case.time_of_first_failure or since,
            {"reason": case.fields.get("last_error", "")},
        )
    if code is VerdictCode.CODE_DOES_NOT_FIT:
        since = case.time_of_first_misfit or since
        more = {
            "reason": case.fields.get("last_error", ""),
            "build": case.fields.get(BUILD),
            "fitting": [worker.name for worker in fitting(case)],
        }
    return case.say(
        code,
        text,
        since,
        until=iso(until),
        waiting_for=reason,
        failures=failures,
        losses=losses,
        **more,
    )


def fitting(case: RunCase) -> Sequence[WorkerInfo]:
    """Return the live workers that run the build of the run's last commit.

    The list is empty if the run's hash does not name a build.
    """
    build = case.fields.get(BUILD)
    return [
        worker
        for worker in case.willing
        if build is not None and worker.info.get("builds", {}).get(case.flow) == build
    ]


def _reason_text(case: RunCase, reason: str) -> tuple[VerdictCode, str]:
    match reason:
        case "start":
            return VerdictCode.SLEEPING, (
                f"It was submitted with a start time and begins {case.due}. To start sooner, "
                "stop it and submit it again without one"
            )
        case "hold":
            return VerdictCode.HELD_AFTER_STOP_NOW, (
                "It was stopped with --now and resumed while the worker of the fenced round "
                "might still run it. It continues when "
                f"that worker releases the round, {case.due} at the latest. There is nothing to do"
            )
        case "loss":
            return VerdictCode.LOSSES, (
                f"Workers died or went silent during step {case.count('step')} (node "
                f"{case.node}) {case.count('losses')} times in a row; "
                f"it is retried {case.due}. Check what this round does to its worker "
                "(memory, native code), or stop the run"
            )
        case "provider":
            error = case.fields.get("last_error", "no error was stored").rstrip(".")
            return VerdictCode.WAITING_FOR_A_PROVIDER, (
                "It "
                f"{waits_for_provider(case.time_of_first_failure, case.time('waiting_until'))}: "
                f"{error}. No attempt is counted. "
                "There is nothing to do, unless you operate the provider or set its limits"
            )
        case "code":
            error = ended(case.fields.get("last_error", "no error was stored"))
            where = (
                f"The code of its last commit runs on {names(fitting(case))}"
                if fitting(case)
                else "No live worker runs the code of its last commit"
            )
            return VerdictCode.CODE_DOES_NOT_FIT, (
                "It "
                f"{waits_for_code(case.time_of_first_misfit, case.time('waiting_until'))}: "
                f"{error} No attempt is counted. {where}. Deploy code that fits; "
                "the run then goes on by itself"
            )
        case "budget":
            of, budget = Record(case.fields).short_of or ("?", "?")
            return VerdictCode.WAITING_FOR_A_BUDGET, (
                f"The {budget} of run {of}, which count for all runs below it, are used up. "
                f"Another of these runs asks a person for more (perdure inbox). To add: "
                f"perdure add {of} {budget}=AMOUNT. It looks again {case.due}"
            )
        case "paused":
            return (
                VerdictCode.BACKING_OFF,
                (
                    f"Its flow {case.flow!r} was paused and no longer is; "
                    f"the run is requeued {case.due}"
                ),
            )
        case "flow":
            return VerdictCode.BACKING_OFF, (
                f"A worker that does not run flow {case.flow!r} took its message; "
                f"the run is requeued {case.due}, and "
                f"{names(case.willing)} can take it. To prevent this, "
                "give all workers of a role the same flows"
            )
        case _:
            error = case.fields.get("last_error", "no error was stored").rstrip(".")
            failures = case.count("failures")
            return VerdictCode.BACKING_OFF, (
                f"Its round has failed {'once' if failures == 1 else f'{failures} times'} "
                f"({error}); it is retried {case.due}. "
                "Fix the cause, or stop the run"
            )
