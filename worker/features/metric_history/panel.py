"""The charts of latency and spending on the overview."""

from __future__ import annotations

from perdure.worker.client.connection import session_of
from perdure.worker.engine.round_stats import BUCKETS
from perdure.worker.features.feature import Panel
from perdure.worker.features.metric_history.charts import flow_charts, mean_charts
from perdure.worker.features.metric_history.percentiles import p95_of
from perdure.worker.features.metric_history.records import read_history
from perdure.worker.web.auth import AuthorizedClient


def charts_of(client: AuthorizedClient, span: str) -> Panel:
    """Return the charts of all owners' rounds over a time span (``hour``, ``day`` or ``week``).

    Raises:
        Forbidden: The caller may not read the runs of all owners.
    """
    client.require_read_all()
    history = read_history(session_of(client.client).store, span)
    means = mean_charts(history, p95_of(client.metric_totals()))
    return Panel(
        "metric_history/panel.html",
        {"means": means, "longest": BUCKETS[-1], "spent": flow_charts(history)},
    )
