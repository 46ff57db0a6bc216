"""Verdicts on runs whose round is being played, and on a server or workers that stood still."""

from __future__ import annotations

from worker.durations import duration
from worker.verdict import Verdict, VerdictCode
from worker.why.case import Case, iso, number


def silent(case: Case) -> Verdict | None:
    """Nobody sweeps, though workers were there just now; or nobody did until just now, and the round's worker has not beaten since."""
    queues = case.standing.queues
    swept, begin, end = (number(queues.get(name)) for name in ("swept_at", "silent_from", "silent_until"))
    if swept is None and case.alive:  # workers that were just started, and have not swept yet
        swept = max(worker.beat for worker in case.alive)
    if case.alive and swept is not None and case.now - swept > case.lease / 2:
        return case.say(
            VerdictCode.SERVER_SILENT,
            f"Nobody has swept for {case.ago(swept)}: the server or the way to it stood still, or all workers just died. It goes on by "
            "itself once one is back and sweeps; look at the server (holdfast doctor) and at the workers (holdfast workers)",
            swept,
            silent_from=iso(swept),
            silent_until=None,
        )
    if not begin:  # no silence, or the one before the first sweep ever: nothing stood still then, there was nobody yet
        return None
    if case.phase != "leased" or end is None or case.beat > end or case.now - end > case.lease:
        return None
    return case.say(
        VerdictCode.SERVER_SILENT,
        f"The server or all workers stood still for {duration((end - begin) / 1000)}, and {case.owner}, which played this round, has not "
        f"beaten since. Its lease is spared once; unless it beats, another worker gets the round, {case.due} at the earliest. "
        "Look at the server: holdfast doctor",
        begin,
        silent_from=iso(begin),
        silent_until=iso(end),
        owner=case.owner,
    )


def leased(case: Case) -> Verdict:
    """A worker plays the round, or was to."""
    until = case.time("lease_until") or 0.0
    head = f"{case.owner} plays step {case.count('step')} (node {case.node}, attempt {case.count('attempt')})"
    if until <= case.now and not case.of_role:
        return case.no_worker(f"{case.owner} played step {case.count('step')} and fell silent")
    if until <= case.now:
        text = f"{head} but has gone silent, and its lease is over: the next sweep gives the round to another. Look at {case.owner}"
    elif case.fields.get("stop_current_execution") == "stop_requested":
        text = f"{head}; a stop was asked for, and holds when this round is over. Not to wait for it: holdfast stop {case.id} --now"
    else:
        text = f"{head} and beat {case.ago(case.beat)} ago. There is nothing to do; if it takes too long: holdfast stop {case.id} --now"
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
