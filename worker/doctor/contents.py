"""Checks: is there something in the server, or in this process, that somebody should look at?"""

from __future__ import annotations

from collections.abc import Mapping

from worker.doctor.finding import Finding, ok, unknown, warning
from worker.store.inspection import Inspection

#: Damaged runs that are told by name.
NAMED = 10


def dead_letters(told: Inspection, key: str) -> Finding:
    check = "dead-letters"
    if told.dead_letters is None:
        return unknown(check, "the dead letters cannot be counted", f"See that this user may read {key}")
    if told.dead_letters:
        return warning(
            check,
            f"{told.dead_letters} messages were no messages of a round, and were put aside",
            f"LRANGE {key} 0 9 shows the newest and why; find out who writes to the queues, then DEL {key}",
        )
    return ok(check, "no message was refused")


def quarantined_runs(told: Inspection) -> Finding:
    check = "quarantined-runs"
    if told.damage is None:
        return unknown(check, "the runs cannot be looked at", "See that this user may read our keys")
    if told.damage:
        some = "; ".join(f"{name} ({what})" for name, what in list(told.damage.items())[:NAMED])
        return warning(
            check,
            f"{len(told.damage)} runs or keys of theirs are damaged: {some}",
            f"holdfast why {next(iter(told.damage))} says how; find out who wrote to the server",
        )
    return ok(check, "no run is damaged")


def flows_loaded(failures: Mapping[str, str]) -> Finding:
    """Flows of installed packages or files that this process could not load."""
    check = "flows-loaded"
    if failures:
        told = "; ".join(f"{what} ({why})" for what, why in failures.items())
        return warning(
            check, f"could not be loaded here: {told}", "Mend or uninstall it; workers that lack a flow leave its runs to others"
        )
    return ok(check, "all flows that were found could be loaded")
