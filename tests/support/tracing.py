"""Tracing in the tests' own process: a provider that exports to a test's collector, as long as a block lasts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, Sampler

from tests.support.collector import PATH, Collector


@contextmanager
def traced_to(
    collector: Collector, sampler: Sampler = ALWAYS_ON, every: float | None = None
) -> Iterator[TracerProvider]:
    """This process has a provider. (A process sets one for good; so it is only put in its place.)

    Args:
        every: ms after which spans go out; None: each at once.
    """
    provider = TracerProvider(sampler, shutdown_on_exit=False)
    exporter = OTLPSpanExporter(collector.url + PATH)
    processor = (
        SimpleSpanProcessor(exporter)
        if every is None
        else BatchSpanProcessor(exporter, schedule_delay_millis=every)
    )
    provider.add_span_processor(processor)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trace, "get_tracer_provider", lambda: provider)
        yield provider
    provider.shutdown()
