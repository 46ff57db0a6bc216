"""A soak's report for people, from its figures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def text(told: dict[str, Any]) -> str:
    """Format the whole report, with plain Celery's beside it if it was requested."""
    return "\n".join(
        [*_soak(told), *(_plain(told["plain_celery"]) if "plain_celery" in told else ())]
    )


def _soak(told: dict[str, Any]) -> Iterator[str]:
    end = f"then all had completed after {told['settled_seconds']} s"
    if told["unfinished"]:
        end = f"then {len(told['unfinished'])} RUNS DID NOT COMPLETE: {' '.join(told['unfinished'][:10])}"
    what = "faults" if told["faults"] else "work without faults"
    yield f"Soak, seed {told['seed']}: {told['chaos_seconds']:.0f} s of {what}, {end}"
    yield f"  runs acknowledged {told['acknowledged']}, lost {len(told['lost'])}"
    yield f"  rounds committed {told['commits']}, doubled {len(told['doubled'])}; answers that are not exact {len(told['inexact'])}"
    families = told["families"]
    yield (
        f"  families {families['parents']}, completed {families['completed']}; child runs {families['children']}, "
        f"places doubled {len(families['places_doubled'])}, missing {len(families['places_missing'])}; "
        f"signals {families['signals']}, lost {len(families['signals_lost'])}, doubled {len(families['signals_doubled'])}"
    )
    if any(families["left"].values()):
        yield f"  LEFT: {_counts(families['left'])}"
    effects = f"doubled {len(told['effects_doubled'])}, missing {len(told['effects_missing'])}"
    yield f"  effects tried {told['effects_tried']}, applied {told['effects_applied']}, {effects}"
    yield f"  late commits refused {told['late_commits_refused']}"
    yield f"  messages per commit {told['messages_per_commit']} ({_counts(told['messages'])})"
    yield from (f"  calls: {name}: {_counts(outcomes)}" for name, outcomes in told["calls"].items())
    yield f"  reads: {told['reads']}"
    if told["faults"]:
        yield f"  faults: {_counts(told['faults'])}"
    if told["not_on_this_machine"]:
        yield f"  NOT POSSIBLE ON THIS MACHINE: {', '.join(told['not_on_this_machine'])}"
    yield from (f"  remark: {each}" for each in told["remarks"])
    yield from _recovery(told["recovery"])
    for place, drift in told["drift"].items():
        memory = " -> ".join(f"{kib / 1024:.1f}" for kib in drift["memory_kib"])
        open_files = " -> ".join(map(str, drift["descriptors"]))
        yield f"  {place}: memory {memory} MiB, descriptors {open_files}, in its longest life of {drift['seconds']} s"
    if told["refused_to_start"]:
        yield f"  workers that refused to start while the server's clock was wrong: {told['refused_to_start']}"
    yield from (f"  FALLEN: {each}" for each in told["fallen"])
    yield f"  verdict: {told['verdict']}"


def _plain(told: dict[str, Any]) -> Iterator[str]:
    how = f"late acks, visibility timeout {told['visibility_timeout']} s"
    yield f"Plain Celery ({how}): {told['chaos_seconds']:.0f} s of killing, and quiet until nothing moved any more"
    yield f"  runs submitted {told['runs']}, LOST {len(told['lost'])}"
    yield f"  rounds ended {told['rounds_ended']}, DOUBLED {told['rounds_doubled']}; effects tried {told['tried']}"
    yield f"  faults: {_counts(told['faults'])}"
    yield from _recovery(told["recovery"])


def _recovery(kinds: dict[str, Any]) -> Iterator[str]:
    for kind, spread in kinds.items():
        shown = "; ".join(
            f"{name.replace('_', ' ')}: "
            + (
                f"{each['count']} rounds, p50 {each['p50']} s, p99 {each['p99']} s, max {each['max']} s"
                if each["count"]
                else "none"
            )
            for name, each in spread.items()
        )
        yield f"  recovery {kind:<14} {shown}"


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items()) or "none"
