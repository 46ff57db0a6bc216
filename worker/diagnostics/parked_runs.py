"""Verdicts on parked runs: runs whose node waits."""

from __future__ import annotations

from perdure.worker.diagnostics.run_case import RunCase, iso
from perdure.worker.domain.record import awaited
from perdure.worker.domain.verdict import Verdict, VerdictCode
from perdure.worker.presentation.text import count


def parked(case: RunCase) -> Verdict:
    """Return the verdict on a parked run.

    The run's node waits for signals, child runs or a time. If the wait has timed out and no worker
    is alive, the verdict says that instead.
    """
    until = case.time("wait_until")
    signals, children = awaited(case.fields).values()
    if until is not None and until <= case.now and not case.alive:
        return case.no_worker("The time of its wait is over")
    if children:
        return _waiting_for_children(case, children[0])
    if not signals:
        return case.say(
            VerdictCode.SLEEPING,
            f"Its node {case.node} sleeps and continues {case.soon(until)}. There is nothing to do",
            case.since_phase,
            until=iso(until),
            waiting_for="time",
        )
    end = "" if until is None else f"; its time is over {case.soon(until)}"
    topic = case.fields.get("topic")
    end = f", also by its topic {topic}{end}" if topic else end
    return case.say(
        VerdictCode.WAITING_FOR_A_SIGNAL,
        f"Its node {case.node} waits for the signal {' or '.join(signals)} "
        f"(perdure signal {case.id} {signals[0]}){end}",
        case.since_phase,
        until=iso(until),
        waiting_for="signal",
        signals=signals,
        **({"topic": topic} if topic else {}),
    )


def _waiting_for_children(case: RunCase, group: str) -> Verdict:
    until, counts = case.time("wait_until"), case.standing.groups.get(group, {})
    total, started, ok, bad, waiting = (
        counts.get(name, 0) for name in ("total", "started", "ok", "bad", "held")
    )
    states = {
        "succeeded": ok,
        "did not": bad,
        "held back": waiting,
        "under way": started - ok - bad - waiting,
        "not started": total - started,
    }
    told = ", ".join(f"{number} {state}" for state, number in states.items() if number)
    end = "" if until is None else f"; the time of the wait is over {case.soon(until)}"
    if asking := case.standing.asking:
        others = f" and {len(asking) - 1} more" if len(asking) > 1 else ""
        end += f". Run {asking[0]}{others} of these wait{'' if others else 's'} for a person: "
        end += f"perdure show {asking[0]}"
    if held := case.standing.held:
        others = f" and {len(held) - 1} more" if len(held) > 1 else ""
        from perdure.flows.rounds.children import continuing  # It imports the classes of all waits.

        child, status = held[0]
        end += f". Run {child}{others} did not succeed. Mend the cause, then: "
        end += continuing(child, status)
    return case.say(
        VerdictCode.WAITING_FOR_CHILDREN,
        f"Its node {case.node} waits for {count(total, 'child run')}: {told or 'none is there'} "
        f"(perdure tree {case.id}){end}",
        case.since_phase,
        until=iso(until),
        waiting_for="children",
        group=group,
        asking=list(asking),
        held_back=[child for child, _ in held],
        **counts,
    )
