"""Telling: everything that was gathered, as text."""

from __future__ import annotations

import time
from collections.abc import Iterator

from prometheus_client import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from worker.client import Client
from worker.metrics import fleet, rounds, runs
from worker.metrics.families import gauge
from worker.metrics.gathering import Gathered, gather


def exposition(client: Client, accept: str = "") -> tuple[bytes, str]:
    """The metrics as text, and its content type; raises StoreUnavailable.

    Args:
        accept: the header ``Accept`` of the request: Prometheus may prefer the OpenMetrics format.
    """
    began = time.perf_counter()
    encode, content_type = choose_encoder(accept)
    return encode(_Told(gather(client), began)), content_type


class _Told(Collector):
    def __init__(self, gathered: Gathered, began: float) -> None:
        self._gathered = gathered
        self._began = began

    def collect(self) -> Iterator[Metric]:
        for part in (runs, rounds, fleet):
            yield from part.families(self._gathered)
        yield gauge(
            "holdfast_scrape_duration_seconds",
            "How long it took to read and put together what stands above.",
            value=time.perf_counter() - self._began,
        )
