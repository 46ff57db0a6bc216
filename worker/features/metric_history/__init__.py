"""Metric history: the metrics of rounds over the last hour, day and week, as charts.

Each of these spans is divided into equal parts. A part is a Redis hash, whose key has the number of
the part since 1970. So a chart reads as many hashes as it has points. The hash expires when no
chart shows its part any longer. So the memory grows only with the number of flows and queues.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from perdure.worker.features.feature import Feature, Panel

if TYPE_CHECKING:
    from perdure.worker.store.keys import Keys


class MetricHistoryFeature(Feature):
    """The feature of the metric history."""

    name: ClassVar[str] = "metric_history"

    def add_totals(
        self, pipe: Any, keys: Keys, amounts: Mapping[tuple[str, ...], float], now: int
    ) -> None:
        """Add commands to ``pipe`` that add the amounts to the current part of each span."""
        from perdure.worker.features.metric_history.records import add_to_parts

        add_to_parts(pipe, keys, amounts, now)

    def panel(self, client: Any, span: str) -> Panel:
        """Return the charts of latency and spending."""
        from perdure.worker.features.metric_history.panel import charts_of

        return charts_of(client, span)


FEATURE = MetricHistoryFeature()
