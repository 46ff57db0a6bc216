"""Metric history: the figures of rounds over the last hour, day and week, as charts.

Each span has separate parts, so a chart reads as many hashes as it has points. A part's name is its
number since 1970. Its hash expires when it leaves all charts. So the memory is bounded by spans,
parts, flows and queues.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from perdure.worker.features.feature import Feature, Panel

if TYPE_CHECKING:
    from perdure.worker.store.keys import Keys


class MetricHistoryFeature(Feature):
    """What the history of metrics offers to the rest of the tree."""

    name: ClassVar[str] = "metric_history"

    def add_totals(
        self, pipe: Any, keys: Keys, amounts: Mapping[tuple[str, ...], float], now: int
    ) -> None:
        """Add the amounts to the current part of each span."""
        from perdure.worker.features.metric_history.records import add_to_parts

        add_to_parts(pipe, keys, amounts, now)

    def panel(self, client: Any, span: str) -> Panel:
        """Return the charts of latency and spending."""
        from perdure.worker.features.metric_history.panel import charts_of

        return charts_of(client, span)


FEATURE = MetricHistoryFeature()
