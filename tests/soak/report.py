"""The report of a soak, for people and for machines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from tests.soak.history import Call, Effect, Fault
from tests.soak.recovery import Recovery, recoveries, share
from tests.soak.soak import Outcome

#: Kinds that cost processes their rounds.
COSTLY = ("kill_worker", "kill_child", "freeze_worker", "warm_shutdown", "cold_shutdown")


def figures(outcome: Outcome) -> dict[str, Any]:
    """All figures, as JSON data."""
    history, traffic = outcome.history, outcome.traffic
    submits = {call.key: call.run for call in history.calls if call.name == "submit" and call.outcome == "acknowledged"}
    ends = {end.run: end for end in history.ends}
    commits = Counter((event.run, event.step) for event in history.events if event.type == "committed")
    tried = Counter((effect.run, effect.step) for effect in history.effects if effect.what == "tried")
    applied = {(effect.run, effect.step, effect.key) for effect in history.effects if effect.what == "applied"}
    places = Counter((run, step) for run, step, _ in applied)
    return {
        "seed": outcome.plan.seed,
        "chaos_seconds": outcome.plan.chaos,
        "settled_seconds": round(outcome.settled, 1),
        "runs": len(submits),
        "rounds": outcome.plan.rounds,
        "acknowledged": len(submits),
        "lost": sorted(run for run in submits.values() if run not in ends),
        "unfinished": outcome.unfinished,
        "commits": sum(commits.values()),
        "doubled": sorted(f"{run}:{step}" for (run, step), count in commits.items() if count > 1),
        "inexact": sorted(
            end.run for end in history.ends if end.status == "completed" and list(end.answer or ()) != list(range(history.rounds))
        ),
        "effects_tried": sum(tried.values()),
        "effects_applied": len(applied),
        "effects_doubled": sorted(f"{run}:{step}" for (run, step), count in places.items() if count > 1),
        "effects_missing": sorted(f"{run}:{step}" for run, step in commits if (run, step) not in places),
        "late_commits_refused": traffic.late,
        "messages": {"pushed": traffic.pushed, **traffic.again},
        "messages_per_commit": round(traffic.per_commit, 3),
        "calls": {
            name: dict(Counter(call.outcome for call in history.calls if call.name == name))
            for name in sorted({call.name for call in history.calls})
        },
        "reads": len(history.reads),
        "faults": {kind: _fired(history.faults, kind) for kind in sorted(history.asked_faults)},
        "not_on_this_machine": outcome.missing,
        "recovery": of_recovery(history.faults, history.effects, history.calls),
        "drift": {
            each.place: {
                "seconds": round(each.seconds),
                "memory_kib": [each.first.memory, each.last.memory],
                "descriptors": [each.first.descriptors, each.last.descriptors],
            }
            for each in outcome.drift
        },
        "fallen": outcome.fallen,
        "verdict": str(outcome.verdict),
    }


def of_recovery(faults: Sequence[Fault], effects: Sequence[Effect], calls: Sequence[Call]) -> dict[str, Any]:
    """The recoveries by kind of fault, as JSON data."""
    found = recoveries(faults, struck(faults), effects, calls)
    kinds = [kind for kind in COSTLY if any(fault.kind == kind for fault in faults)]
    return {kind: _spread([each for each in found if each.kind == kind]) for kind in kinds}


def struck(faults: Sequence[Fault]) -> dict[Fault, list[int]]:
    """The faults that cost processes their rounds, with those processes."""
    return {
        fault: [int(word) for word in fault.hit.split()[1:] if word.isdecimal()] for fault in faults if fault.kind in COSTLY and fault.fired
    }


def text(told: dict[str, Any]) -> str:
    """The figures for people."""
    lines = [
        f"Soak, seed {told['seed']}: {told['chaos_seconds']:.0f} s of faults, then all had completed after {told['settled_seconds']} s"
        if not told["unfinished"]
        else f"Soak, seed {told['seed']}: {len(told['unfinished'])} RUNS DID NOT COMPLETE: {' '.join(told['unfinished'][:10])}",
        f"  runs acknowledged {told['acknowledged']}, lost {len(told['lost'])}; rounds committed {told['commits']}, doubled {len(told['doubled'])}; "
        f"answers that are not exact {len(told['inexact'])}",
        f"  effects tried {told['effects_tried']}, applied {told['effects_applied']}, doubled {len(told['effects_doubled'])}, "
        f"missing {len(told['effects_missing'])}; late commits refused {told['late_commits_refused']}",
        f"  messages per commit {told['messages_per_commit']} ({', '.join(f'{name} {count}' for name, count in told['messages'].items())})",
        "  calls: "
        + "; ".join(f"{name} " + ", ".join(f"{count} {word}" for word, count in each.items()) for name, each in told["calls"].items())
        + f"; {told['reads']} reads",
    ]
    if told["faults"]:
        lines.append("  faults: " + ", ".join(f"{kind} {count}" for kind, count in told["faults"].items()))
    if told["not_on_this_machine"]:
        lines.append(f"  NOT POSSIBLE ON THIS MACHINE: {', '.join(told['not_on_this_machine'])}")
    lines += [f"  recovery {kind:<14} {_line(spread)}" for kind, spread in told["recovery"].items()]
    for place, drift in told["drift"].items():
        memory, open_files = drift["memory_kib"], drift["descriptors"]
        lines.append(
            f"  {place}: memory {memory[0] // 1024} -> {memory[1] // 1024} MiB, descriptors {open_files[0]} -> {open_files[1]}, "
            f"in its longest life of {drift['seconds']} s"
        )
    lines += [f"  FALLEN: {each}" for each in told["fallen"]]
    lines.append(f"  verdict: {told['verdict']}")
    return "\n".join(lines)


def beside(told: dict[str, Any]) -> str:
    """Plain Celery's figures for people."""
    lines = [
        f"Plain Celery (late acks, visibility timeout {told['visibility_timeout']} s), {told['chaos_seconds']:.0f} s of killing: "
        f"runs submitted {told['runs']}, LOST {len(told['lost'])}",
        f"  rounds ended {told['rounds_ended']}, of these more than once {told['rounds_doubled']}; effects tried {told['tried']}",
        "  faults: " + ", ".join(f"{kind} {count}" for kind, count in told["faults"].items()),
        *(f"  recovery {kind:<14} {_line(spread)}" for kind, spread in told["recovery"].items()),
    ]
    return "\n".join(lines)


def _fired(faults: Sequence[Fault], kind: str) -> int:
    return sum(fault.fired for fault in faults if fault.kind == kind)


def _spread(found: list[Recovery]) -> dict[str, Any]:
    alone = [each.seconds for each in found if each.alone]
    with_others = [each.seconds for each in found if not each.alone]
    return {"alone": _shares(alone), "with_others": _shares(with_others)}


def _shares(seconds: list[float]) -> dict[str, Any]:
    if not seconds:
        return {"count": 0}
    return {
        "count": len(seconds),
        "p50": round(share(seconds, 0.5), 2),
        "p99": round(share(seconds, 0.99), 2),
        "max": round(max(seconds), 2),
    }


def _line(spread: dict[str, Any]) -> str:
    return "; ".join(
        f"{name.replace('_', ' ')}: "
        + (f"{each['count']} rounds, p50 {each['p50']} s, p99 {each['p99']} s, max {each['max']} s" if each["count"] else "none")
        for name, each in spread.items()
    )
