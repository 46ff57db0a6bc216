"""The choice of a run's Verdict, from one read of the run, its queue and the workers.

The functions are pure: they read neither a server nor a clock.
"""

from __future__ import annotations

from perdure.worker.diagnostics.live_runs import (
    broker_silent,
    flow_paused,
    in_line,
    leased,
    message_lost,
    no_worker_runs_it,
    silent,
    waiting,
)
from perdure.worker.diagnostics.parked_runs import parked
from perdure.worker.diagnostics.resting_runs import ended, quarantined, waiting_for_a_person
from perdure.worker.diagnostics.run_case import RunCase
from perdure.worker.domain.fleet import RunSnapshot
from perdure.worker.domain.verdict import Verdict, VerdictCode
from perdure.worker.settings import Settings


def verdict_of(standing: RunSnapshot, settings: Settings) -> Verdict:
    """Return the verdict why a run is in its current state. ``perdure why`` shows it.

    If several reasons hold, a reason that a person must act on comes before reasons that go away by
    themselves. Damaged data comes first.

    Args:
        standing: One read of the run, its queue and the workers.
        settings: The settings of this process. Their lease and heartbeat decide who is alive.
    """
    case = RunCase(standing, settings)
    damage = quarantined(case)
    if damage:
        return damage
    match case.phase:
        case "completed" | "errored" | "stopped":
            return ended(case)
        case "interrupted":
            return waiting_for_a_person(case)
        case "leased":
            return silent(case) or leased(case)
        case "waiting":
            return (
                (flow_paused(case) if case.fields.get("waiting_for") == "paused" else None)
                or silent(case)
                or waiting(case)
            )
        case "parked":
            return silent(case) or parked(case)
        case _:
            return (
                flow_paused(case)
                or silent(case)
                or no_worker_runs_it(case)
                or broker_silent(case)
                or message_lost(case)
                or in_line(case)
            )


def while_refused(verdict: Verdict, reply: str, remedy: str) -> Verdict:
    """Return the verdict on a run whose state server replies to all writes with an error.

    Args:
        verdict: The run's verdict apart from this error. The new sentence and details include it.
        reply: The server's error reply: its code, such as ``MISCONF``, and a text.
        remedy: Advice for the operator, as a sentence without a full stop.
    """
    return Verdict(
        VerdictCode.SERVER_SILENT,
        f"The state server refuses all writes: {reply}. {remedy}. Until then no run moves. "
        f"Otherwise: {verdict.sentence}",
        verdict.since,
        {
            **verdict.details,
            "refuses": reply.partition(" ")[0],
            "otherwise": verdict.code.value,
        },
    )
