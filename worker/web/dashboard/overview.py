"""The overview page: runs that need attention, workers, slots, and charts of ended runs."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from perdure.worker.domain.chart_spans import PARTS, SPANS
from perdure.worker.domain.verdict import Verdict, VerdictCode
from perdure.worker.features import features
from perdure.worker.features.feature import Panel
from perdure.worker.presentation.questions import KINDS, what
from perdure.worker.web.auth import AuthorizedClient
from perdure.worker.web.auth.permissions import Runs
from perdure.worker.web.dashboard.charts import Chart
from perdure.worker.web.dashboard.fleet import HEADS
from perdure.worker.web.dashboard.page import PageRoute, page

router = APIRouter(route_class=PageRoute, include_in_schema=False)

#: Number of the newest errored runs that are put into groups. An open page looks every 5 s.
ERRORED_LOOKED_AT = 500
#: Rows of the attention list. The pages Inbox and Stuck have all.
ROWS = 20


@dataclass(frozen=True)
class Attention:
    """A row of the attention list, with the reason.

    The row stands for one run, or for several runs that failed in the same way.

    Attributes:
        run_id: The run, or the newest of several runs.
        kind: A short text for the kind of question or problem.
        since: Beginning of the wait or the problem. None if unknown.
        is_question: Whether the run waits for a person's answer.
        count: The number of runs that failed in the same way.
        query: The query line that selects these runs. '' for a single run.
        remedy: What continues an errored run (``ErrorGroup.remedy``).
    """

    run_id: str
    title: str
    flow: str
    kind: str
    sentence: str
    since: datetime | None
    is_question: bool = False
    count: int = 1
    query: str = ""
    remedy: str = "retry"


@dataclass
class FlowTotals:
    """The totals of one flow in the workers' metrics.

    Attributes:
        rounds: Number of rounds.
        failed: Number of rounds that failed, with or without a later retry.
        took_ms: Sum of the rounds' durations in ms.
        spent: Spent amounts by name, such as ``tokens`` and ``money``.
    """

    rounds: float = 0
    failed: float = 0
    took_ms: float = 0
    spent: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    @property
    def mean_seconds(self) -> float:
        """The mean duration of a flow's rounds in seconds. 0 without rounds."""
        return self.took_ms / self.rounds / 1000 if self.rounds else 0.0


@router.get("/overview")
def overview(request: Request, runs: Runs, span: Annotated[str, Query()] = "day") -> Response:
    """Show the runs that need attention, the workers, and charts of a time span.

    Charts and totals count the runs of all owners, so only callers who may see all runs get them.

    Args:
        span: A key of SPANS. Any other value means ``day``.
    """
    span = span if span in SPANS else "day"
    alive = [worker for worker in runs.workers() if worker["alive"]]
    sees_all = runs.caller.sees_only is None
    return page(
        request,
        "overview.html",
        attention=_attention(runs),
        sees_all=sees_all,
        workers=alive,
        rounds=sum(worker["rounds"] for worker in alive),
        slots=sum(worker["concurrency"] for worker in alive),
        queues=runs.queues(),
        span=span,
        spans=tuple(SPANS),
        charts=charts_of(runs.ended_counts(SPANS[span], PARTS)) if sees_all else {},
        panels=panels_of(runs, span) if sees_all else [],
        totals=totals_of(runs.metric_totals()) if sees_all else {},
        bucket_seconds=SPANS[span] / PARTS,
    )


def panels_of(runs: AuthorizedClient, span: str) -> list[Panel]:
    """Return the panels that features add to the overview.

    ``span`` is a key of SPANS. A feature without a panel is left out.
    """
    return [panel for feature in features() if (panel := feature.panel(runs, span)) is not None]


def charts_of(counts: Mapping[str, Sequence[int]]) -> dict[str, Chart]:
    """Return a chart of ended runs for each status.

    Args:
        counts: By status, the numbers of ended runs in equal parts of a time span.
    """
    return {name: Chart(amounts) for name, amounts in counts.items()}


def totals_of(fields: Mapping[str, str]) -> list[tuple[str, FlowTotals]]:
    """Return the totals of each flow in the workers' metrics, the costliest flow first.

    Args:
        fields: The stored totals of all metrics, as text. The name of a field is a JSON list: the
            metric's name, the flow and further labels. Invalid fields and other metrics are
            ignored.
    """
    totals: dict[str, FlowTotals] = defaultdict(FlowTotals)
    for name, text in fields.items():
        try:
            metric, flow, *labels = json.loads(name)
            amount = float(text)
        except (ValueError, TypeError):
            continue
        if metric == "rounds":
            totals[flow].rounds += amount
            if labels[-1:] in (["waiting"], ["errored"]):
                totals[flow].failed += amount
        elif metric == "took_ms":
            totals[flow].took_ms += amount
        elif metric == "spent" and labels:
            totals[flow].spent[labels[0]] += amount
    return sorted(
        totals.items(),
        key=lambda pair: (-pair[1].spent["money"], -pair[1].spent["tokens"], -pair[1].rounds),
    )


def _attention(runs: AuthorizedClient) -> list[Attention]:
    """Return the rows of the attention list.

    They are at most ROWS of each kind. Questions come first, then runs that make no progress, then
    errored runs.
    """
    questions = [
        Attention(
            waiting.run_id,
            waiting.heading,
            waiting.flow,
            KINDS[waiting.kind],
            what(waiting) if waiting.kind == "budget" else waiting.question,
            waiting.since,
            True,
        )
        for waiting in runs.inbox(ROWS).waiting
    ]
    verdicts = [each for each in runs.stuck(ROWS) if each.code is not VerdictCode.ENDED]
    still = list(_standing_still(runs, verdicts))
    return [*questions, *still[:ROWS], *_errored(runs)][: 3 * ROWS]


def _errored(runs: AuthorizedClient) -> list[Attention]:
    """Return the rows of the newest errored runs.

    Runs that failed in the same way share a row.
    """
    groups = runs.error_groups(look=ERRORED_LOOKED_AT).groups[:ROWS]
    titles = runs.titles([group.newest for group in groups])
    return [
        Attention(
            group.newest,
            titles.get(group.newest, ("", ""))[0],
            group.flow,
            "errored",
            group.error,
            group.newest_at,
            count=group.count,
            query=group.query,
            remedy=group.remedy,
        )
        for group in groups
    ]


def _standing_still(runs: AuthorizedClient, verdicts: Sequence[Verdict]) -> Iterable[Attention]:
    titles = runs.titles([str(verdict.details["run"]) for verdict in verdicts])
    for verdict in verdicts:
        run_id = str(verdict.details["run"])
        title, flow = titles.get(run_id, ("", ""))
        head = HEADS.get(verdict.code, verdict.code.value)
        yield Attention(
            run_id,
            title,
            flow,
            head[:1].lower() + head[1:],
            verdict.sentence,
            verdict.since,
        )
