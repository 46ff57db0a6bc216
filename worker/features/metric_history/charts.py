"""The charts of the metric history, as SVG: bars of means, and a line for each flow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from perdure.worker.features.metric_history.history import MetricHistory
from perdure.worker.web.dashboard.charts import HIGH, WIDE, Chart

#: Flows with a line of their own. More lines cannot be told apart; the others share the last one.
LINES = 3


@dataclass(frozen=True)
class MeanChart(Chart):
    """A chart with one bar for each part of a span. A bar is a mean duration in seconds.

    For a part without measurements, the mean is 0.

    Attributes:
        name: Title of the chart.
        mean: The mean over all measurements of the span.
        p95: The 95th percentile since the metrics began (``p95_of``), in seconds. None without
            measurements.
        rows: The chart as a table: begin and mean of each part that has measurements.
    """

    name: str
    mean: float
    p95: float | None
    rows: Sequence[tuple[datetime, float]]


@dataclass(frozen=True)
class FlowLine(Chart):
    """The line of one flow, or of all other flows together.

    Attributes:
        flow: Name of the flow. None for the line of all other flows.
        scale: The largest amount of the whole chart, which is drawn at its upper edge.
    """

    flow: str | None
    scale: float

    @property
    def path(self) -> str:
        """The SVG path of the line, with one point per amount."""
        width = WIDE / (len(self.amounts) or 1)
        points = (
            f"{(number + 0.5) * width:g} {HIGH - 1 - (HIGH - 2) * amount / (self.scale or 1):.1f}"
            for number, amount in enumerate(self.amounts)
        )
        return "M" + "L".join(points)


@dataclass(frozen=True)
class FlowChart:
    """A chart with a line for each of a few flows.

    Attributes:
        name: ``tokens`` or ``money``.
        lines: A line for each of the flows that spent most, the largest sum first. If there are
            more flows, the last line is that of all other flows together.
        rows: The chart as a table: the begin of each part and its amounts, in the order of
            ``lines``. Parts in which nothing was spent are left out.
    """

    name: str
    lines: Sequence[FlowLine]
    rows: Sequence[tuple[datetime, Sequence[float]]]

    @property
    def total(self) -> float:
        """The sum of the amounts of all flows."""
        return sum(line.total for line in self.lines)

    @property
    def most(self) -> float:
        """The largest amount that one line has in one part. 0 without lines."""
        return max((line.most for line in self.lines), default=0)


def mean_charts(history: MetricHistory, p95: Mapping[str, float]) -> list[MeanChart]:
    """Return the charts of latency: mean wait in the queues and mean duration of rounds.

    Args:
        p95: The 95th percentiles since the metrics began, as ``p95_of`` returns them.
    """
    return [
        _mean_chart("queue wait", history, "waited_ms", "waits", p95.get("waited")),
        _mean_chart("round", history, "took_ms", "rounds", p95.get("took")),
    ]


def flow_charts(history: MetricHistory) -> list[FlowChart]:
    """Return the charts of the flows' spending: tokens and money."""
    return [_flow_chart(name, history) for name in ("tokens", "money")]


def _mean_chart(
    name: str, history: MetricHistory, sums: str, counts: str, p95: float | None
) -> MeanChart:
    total = _together(history.of(sums).values(), len(history.parts))
    count = _together(history.of(counts).values(), len(history.parts))
    means = [_mean(*each) for each in zip(total, count, strict=True)]
    rows = [
        (begin, mean)
        for begin, mean, measured in zip(_moments(history), means, count, strict=True)
        if measured
    ]
    return MeanChart(means, name, _mean(sum(total), sum(count)), p95, rows)


def _mean(ms: float, count: float) -> float:
    return ms / count / 1000 if count else 0.0


def _flow_chart(name: str, history: MetricHistory) -> FlowChart:
    flows = sorted(history.of(name).items(), key=lambda pair: (-sum(pair[1]), pair[0]))
    shown: list[tuple[str | None, list[float]]] = [*flows[:LINES]]
    if others := [amounts for _, amounts in flows[LINES:]]:
        shown.append((None, _together(others, len(history.parts))))
    scale = max((max(amounts) for _, amounts in shown), default=0)
    points = [[amounts[part] for _, amounts in shown] for part in range(len(history.parts))]
    return FlowChart(
        name,
        [FlowLine(amounts, flow, scale) for flow, amounts in shown],
        [
            (begin, amounts)
            for begin, amounts in zip(_moments(history), points, strict=True)
            if any(amounts)
        ],
    )


def _together(lists: Iterable[Sequence[float]], length: int) -> list[float]:
    """Return the sums of several lists, element by element.

    Args:
        length: The length of each list, and of the result.
    """
    sums = [0.0] * length
    for amounts in lists:
        sums = [sum(pair) for pair in zip(sums, amounts, strict=True)]
    return sums


def _moments(history: MetricHistory) -> list[datetime]:
    return [datetime.fromtimestamp(begin / 1000, UTC) for begin in history.begins]
