"""The figures of a soak, as JSON data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.soak.faults import LEFT_TOO_LATE
from tests.soak.history import Call, Effect, Fault, History
from tests.soak.recovery import Recovery, recoveries, share
from tests.soak.soak import Outcome

#: Kinds that cost processes their rounds.
COSTLY = ("kill_worker", "kill_child", "freeze_worker", "warm_shutdown", "cold_shutdown")


def figures(outcome: Outcome) -> dict[str, Any]:
    """Return all figures, as JSON data."""
    history, traffic = outcome.history, outcome.traffic
    submits = {
        call.key: call.run
        for call in history.calls
        if call.name == "submit" and call.outcome == "acknowledged"
    }
    ends = {end.run: end for end in history.ends}
    commits = Counter(
        (event.run, event.step) for event in history.events if event.type == "committed"
    )
    tried = Counter(
        (effect.run, effect.step) for effect in history.effects if effect.what == "tried"
    )
    applied = {
        (effect.run, effect.step, effect.key)
        for effect in history.effects
        if effect.what == "applied"
    }
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
            end.run
            for end in history.ends
            if end.status == "completed"
            and list(end.answer or ()) != list(range(history.rounds_of(end)))
        ),
        "families": _families(history),
        "effects_tried": sum(tried.values()),
        "effects_applied": len(applied),
        "effects_doubled": sorted(
            f"{run}:{step}" for (run, step), count in places.items() if count > 1
        ),
        "effects_missing": sorted(
            f"{run}:{step}" for run, step in commits if (run, step) not in places
        ),
        "late_commits_refused": traffic.late,
        "messages": {"pushed": traffic.pushed, **traffic.again},
        "messages_per_commit": round(traffic.per_commit, 3),
        "calls": {
            name: dict(Counter(call.outcome for call in history.calls if call.name == name))
            for name in sorted({call.name for call in history.calls})
        },
        "reads": len(history.reads),
        "faults": {kind: _fired(history.faults, kind) for kind in sorted(history.asked_faults)},
        "remarks": [
            f"{fault.kind}: {fault.hit}"
            for fault in history.faults
            if not fault.fired or LEFT_TOO_LATE in fault.hit
        ],
        "not_on_this_machine": outcome.missing,
        "recovery": of_recovery(
            history.faults, history.effects, [*history.calls, *_of_children(history)]
        ),
        "drift": {
            each.place: {
                "seconds": round(each.seconds),
                "memory_kib": [each.first.memory, each.last.memory],
                "descriptors": [each.first.descriptors, each.last.descriptors],
            }
            for each in outcome.drift
        },
        "fallen": outcome.fallen,
        "refused_to_start": outcome.refusals,
        "verdict": str(outcome.verdict),
    }


def of_recovery(
    faults: Sequence[Fault], effects: Sequence[Effect], calls: Sequence[Call]
) -> dict[str, Any]:
    """Return the recoveries by fault kind, as JSON data."""
    found = recoveries(faults, struck(faults), effects, calls)
    kinds = [kind for kind in COSTLY if any(fault.kind == kind for fault in faults)]
    return {kind: _spread([each for each in found if each.kind == kind]) for kind in kinds}


def _families(history: History) -> dict[str, Any]:
    heard = {family.parent: family for family in history.families if family.answers is not None}
    places = Counter((child.parent, child.place) for child in history.children)
    stored = Counter(event.run for event in history.events if event.type == "signalled")
    sent = {call.run for call in history.calls if call.name == "signal"}
    return {
        "parents": len(history.families),
        "completed": len(heard),
        "children": len(history.children),
        "places_doubled": sorted(f"{run}:{place}" for (run, place), n in places.items() if n > 1),
        "places_missing": sorted(
            f"{family.parent}:{place}"
            for family in heard.values()
            for place in range(family.children)
            if not places[family.parent, place]
        ),
        "signals": len(sent),
        "signals_lost": sorted(run for run in sent if not stored[run]),
        "signals_doubled": sorted(
            run
            for run in sent
            if stored[run] > 1 or (run in heard and heard[run].again is not None)
        ),
        "left": dict(history.left),
    }


def _of_children(history: History) -> list[Call]:
    """Return the calls to parents as calls to their children, which stop and continue with them."""
    by_parent: dict[str, list[Call]] = {}
    for call in history.calls:
        by_parent.setdefault(call.run, []).append(call)
    return [
        replace(call, run=child.run)
        for child in history.children
        for call in by_parent.get(child.parent, ())
    ]


def struck(faults: Sequence[Fault]) -> dict[Fault, list[int]]:
    """Return the costly faults, with the processes they hit."""
    return {
        fault: [int(word) for word in fault.hit.split()[1:] if word.isdecimal()]
        for fault in faults
        if fault.kind in COSTLY and fault.fired
    }


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
