"""The text of ``/metrics``: everything that Prometheus reads from a server process.

docs/operations/metrics.md explains each metric. Each request needs four round trips to the state
server, plus those of the features. Their cost does not grow with the number of runs. The workers
store their totals on the state server. So all server processes return the same totals, and may
restart.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

from prometheus_client import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from perdure.worker.client import Client
from perdure.worker.client.connection import session_of
from perdure.worker.features import features
from perdure.worker.metrics import fleet, rounds, runs
from perdure.worker.metrics.families import gauge
from perdure.worker.metrics.gather import MetricsSnapshot, gather
from perdure.worker.store import Store


def exposition(client: Client, accept: str = "") -> tuple[bytes, str]:
    """Return all metrics as text, and the content type of the text.

    Args:
        accept: The header ``Accept`` of the request. With it, Prometheus may choose the OpenMetrics
            format.

    Raises:
        StoreUnavailable: The state server does not reply.
    """
    began = time.perf_counter()
    encode, content_type = choose_encoder(accept)
    gathered = gather(client)
    of_features = metrics_of_features(session_of(client).store, gathered.look.rounds)
    return encode(_RequestCollector(gathered, of_features, began)), content_type


def metrics_of_features(store: Store | None, totals: Mapping[str, str]) -> list[Metric]:
    """Return the metrics that features add. Without a store, the metrics have no samples.

    Args:
        totals: The totals that workers stored, by the field of the metrics' hash.
    """
    return [metric for feature in features() for metric in feature.metrics(store, totals)]


class _RequestCollector(Collector):
    def __init__(
        self, gathered: MetricsSnapshot, of_features: Sequence[Metric], began: float
    ) -> None:
        self._gathered = gathered
        self._of_features = of_features
        self._began = began

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics of one scrape by Prometheus."""
        for part in (runs, rounds, fleet):
            yield from part.families(self._gathered)
        yield from self._of_features
        yield gauge(
            "perdure_scrape_duration_seconds",
            "Time to read the data and to build the metrics above.",
            value=time.perf_counter() - self._began,
        )
