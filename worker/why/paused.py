"""The verdict on runs whose flow somebody paused."""

from __future__ import annotations

import json

from worker.verdict import Verdict, VerdictCode
from worker.why.case import Case, iso


def flow_paused(case: Case) -> Verdict | None:
    """Its flow is paused: it is held already, or will be when its message is claimed."""
    if case.standing.paused is None:
        return None
    info = json.loads(case.standing.paused)
    by, because = (f" {word} {info[name]}" if info.get(name) else "" for word, name in (("by", "by"), ("because:", "reason")))
    return case.say(
        VerdictCode.FLOW_PAUSED,
        f"Flow {case.flow!r} is paused{by}{because}; no round of its runs starts. To let it go on: holdfast flows unpause {case.flow}",
        info.get("at"),
        flow=case.flow,
        by=info.get("by"),
        reason=info.get("reason"),
        paused_at=iso(info.get("at")),
    )
