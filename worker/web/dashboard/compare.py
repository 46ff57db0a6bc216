"""The page that compares two runs.

It shows how the runs were submitted and how they ended, and their rounds side by side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request, Response

from perdure.worker.domain.run import Run
from perdure.worker.presentation.text import duration
from perdure.worker.presentation.timeline import row_of
from perdure.worker.presentation.usage import used
from perdure.worker.web.auth import AuthorizedClient
from perdure.worker.web.auth.permissions import Runs
from perdure.worker.web.dashboard.documents import text_of
from perdure.worker.web.dashboard.outline import outline_of
from perdure.worker.web.dashboard.page import PageRoute, page
from perdure.worker.web.dashboard.run import nodes_of

router = APIRouter(route_class=PageRoute, include_in_schema=False)

#: Rounds of each run on one page.
ROUNDS = 50
#: Characters of a value that are shown on each side.
SHOWN = 600


@dataclass(frozen=True)
class Compared:
    """One row of a comparison of two runs."""

    name: str
    left: str
    right: str

    @property
    def differs(self) -> bool:
        """Whether the two sides of a row are unequal."""
        return self.left != self.right


@router.get("/runs/{run_id}/compare")
def compare(request: Request, run_id: str, runs: Runs, other: str = "", first: int = 0) -> Response:
    """Show two runs side by side.

    Args:
        other: The id of the second run. If empty, a form asks for it.
        first: The first step on the page.
    """
    left = runs.get(run_id)
    other = other.strip()
    if not other:
        candidates = runs.runs(flow=left.flow, limit=11).runs
        return page(
            request,
            "compare.html",
            left=left,
            right=None,
            candidates=[run for run in candidates if run.id != run_id][:10],
        )
    right = runs.get(other)
    first = max(0, first)
    sides = [_rounds(runs, run, first) for run in (left, right)]
    steps = range(first, min(first + ROUNDS, max(left.state.step, right.state.step)))
    return page(
        request,
        "compare.html",
        left=left,
        right=right,
        facts=_facts(left, right),
        rounds=[
            Compared(str(step), sides[0].get(step, ""), sides[1].get(step, "")) for step in steps
        ],
        first=first,
        earlier=max(0, first - ROUNDS) if first else None,
        later=first + ROUNDS if first + ROUNDS < max(left.state.step, right.state.step) else None,
    )


def _facts(left: Run, right: Run) -> list[Compared]:
    """Return rows on how two runs began and ended.

    A row without a text on either side is left out.
    """

    def side(run: Run) -> dict[str, str]:
        return {
            "flow": run.flow,
            "goal": run.purpose,
            **{f"input {name}": _cut(value) for name, value in run.inputs.items()},
            **{f"label {name}": value for name, value in run.labels.items()},
            "model": str(run.details.get("model") or ""),
            "status": run.status_text,
            "rounds": str(run.state.step),
            "duration": duration((run.updated_at - run.created_at).total_seconds()),
            "used": used(run.details.get("spent", {})),
            "answer": _cut(run.answer) if run.answer is not None else "",
            "error": _cut(run.error or ""),
        }

    sides = side(left), side(right)
    names = list(dict.fromkeys((*sides[0], *sides[1])))
    rows = [Compared(name, sides[0].get(name, ""), sides[1].get(name, "")) for name in names]
    return [row for row in rows if row.left or row.right]


def _rounds(runs: AuthorizedClient, run: Run, first: int) -> dict[int, str]:
    """Return the texts of a run's rounds, by step.

    They are at most ROUNDS rounds, from step ``first`` on.
    """
    before = outline_of(runs, run, nodes_of(runs, run)).before_step(first + ROUNDS - 1)
    texts: dict[int, str] = {}
    for event in runs.latest_events(run.id, 4 * ROUNDS, before):
        row = row_of(event)
        if row.is_round and event.step >= first:
            node = f"{event.node}: " if event.node else ""
            texts[event.step] = f"{texts.get(event.step, '')}{node}{row.text[:SHOWN]}"
        elif event.type in ("failed", "lost", "errored") and event.step >= first:
            texts[event.step] = f"{texts.get(event.step, '')}{row.text[:SHOWN]}\n"
    return texts


def _cut(value: Any) -> str:
    text = text_of(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
