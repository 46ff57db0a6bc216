"""why: from one read of a run and of what stands around it to a Verdict. Pure: it reads no server and no clock."""

from __future__ import annotations

from worker.settings import Settings
from worker.standing import Standing
from worker.verdict import Verdict
from worker.why.at_rest import ended, quarantined, waiting_for_a_person
from worker.why.case import Case
from worker.why.in_flight import leased, silent
from worker.why.in_queue import broker_silent, in_line, message_lost, nobody_plays_it
from worker.why.paused import flow_paused
from worker.why.waiting import waiting


def verdict_of(standing: Standing, settings: Settings) -> Verdict:
    """Why the run is where it is. What no worker can mend comes first, what mends itself last."""
    case = Case(standing, settings)
    found = quarantined(case)
    if found:
        return found
    match case.phase:
        case "completed" | "errored" | "stopped":
            return ended(case)
        case "interrupted":
            return waiting_for_a_person(case)
        case "leased":
            return silent(case) or leased(case)
        case "waiting":
            return (flow_paused(case) if case.fields.get("waiting_for") == "paused" else None) or silent(case) or waiting(case)
        case _:
            return flow_paused(case) or silent(case) or nobody_plays_it(case) or broker_silent(case) or message_lost(case) or in_line(case)


__all__ = ["verdict_of"]
