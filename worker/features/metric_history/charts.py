"""The charts of the history, as SVG made in Python: means, and a line for each flow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from perdure.worker.features.metric_history.history import MetricHistory
from perdure.worker.web.dashboard.charts import HIGH, WIDE, Chart

#: Flows with a line of their own. More lines cannot be told apart; the others share the last one.
LINES = 3


@dataclass(frozen=True)
class MeanChart(Chart):
    """Bars of a mean in seconds over time.

    A part without measurements has 0.

    Attributes:
        name: Title of the chart.
        mean: The mean of the whole time.
        rows: The chart as a table: begin and mean of each part with a bar.
    """

    name: str
    mean: float
    rows: Sequence[tuple[datetime, float]]


@dataclass(frozen=True)
class FlowLine(Chart):
    """The line of one flow, or of all other flows together."""

    flow: str | None
    scale: float

    @property
    def path(self) -> str:
        """The SVG path of the line, one point per amount. ``scale`` is the chart's maximum."""
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
        lines: The flows that spent most come first, the others together last.
        rows: The chart as a table: begin and amounts by line of each part in which any was spent.
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
        """The largest amount of one line in one part."""
        return max((line.most for line in self.lines), default=0)


def mean_charts(history: MetricHistory) -> list[MeanChart]:
    """Return the charts of latency: mean wait in the queues and mean duration of rounds."""
    return [
        _mean_chart("queue wait", history, "waited_ms", "waits"),
        _mean_chart("round", history, "took_ms", "rounds"),
    ]


def flow_charts(history: MetricHistory) -> list[FlowChart]:
    """Return the charts of the flows' spending: tokens and money."""
    return [_flow_chart(name, history) for name in ("tokens", "money")]


def _mean_chart(name: str, history: MetricHistory, sums: str, counts: str) -> MeanChart:
    total = _together(history.of(sums).values(), len(history.parts))
    count = _together(history.of(counts).values(), len(history.parts))
    means = [_mean(*each) for each in zip(total, count, strict=True)]
    rows = [
        (begin, mean)
        for begin, mean, measured in zip(_moments(history), means, count, strict=True)
        if measured
    ]
    return MeanChart(means, name, _mean(sum(total), sum(count)), rows)


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
    """Return the sums of several lists of this length, part by part."""
    sums = [0.0] * length
    for amounts in lists:
        sums = [sum(pair) for pair in zip(sums, amounts, strict=True)]
    return sums


def _moments(history: MetricHistory) -> list[datetime]:
    return [datetime.fromtimestamp(begin / 1000, UTC) for begin in history.begins]
