"""Exporting: OpenTelemetry's SDK, set up in Holdfast's own programs where OpenTelemetry's own variables ask for it.

An app that has set a provider of its own keeps it. Spans go out in the background; a collector that is down, slow or wrong costs lines
in the log and, at most, the spans.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from worker.telemetry.sending import flush
from worker.telemetry.switch import is_on

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

logger = logging.getLogger("holdfast.telemetry")

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
SPOKEN = "http/protobuf"
#: How often spans go out, in ms, unless OTEL_BSP_SCHEDULE_DELAY says otherwise. What a process has not sent is lost when it is killed, so
#: more often than the SDK's five seconds; more often still, requests would cost more than what is in them.
EVERY = 250


def set_up() -> None:
    """Export what this process traces, if its environment asks for that and nobody has set a provider."""
    if not _asked() or is_on():
        return
    try:
        _set_up()
    except ImportError as error:
        logger.warning("traces are asked for (%s), and cannot be made: %s; pip install 'holdfast[otel]'", " or ".join(ENDPOINTS), error)
    except Exception as error:  # of a setting that OpenTelemetry cannot read: no reason to play no rounds
        logger.error("traces are asked for, and are not made: %s: %s", type(error).__name__, error)


@contextmanager
def exporting() -> Iterator[None]:
    """What is traced inside is exported, as far as ``set_up`` and ``flush`` see to it."""
    set_up()
    try:
        yield
    finally:
        flush()


def _asked() -> bool:
    said = os.environ.get
    if not any(said(name) for name in ENDPOINTS) or said("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    if "otlp" not in said("OTEL_TRACES_EXPORTER", "otlp"):
        return False
    protocol = next((text for name in PROTOCOLS if (text := said(name))), SPOKEN)
    if protocol != SPOKEN:
        logger.warning(
            "no traces: %s asks for %s, and %s is what Holdfast speaks; collectors listen for it on port 4318",
            PROTOCOLS[1],
            protocol,
            SPOKEN,
        )
    return protocol == SPOKEN


def _set_up() -> None:
    from opentelemetry import trace
    from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    resource = Resource.create().merge(Resource({SERVICE_NAME: "holdfast"})).merge(OTELResourceDetector().detect())
    every = None if os.environ.get("OTEL_BSP_SCHEDULE_DELAY") else EVERY
    # Not shut down at exit: the SDK would wait for a collector that does not answer for half a minute. See flush.
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(_exporter(), schedule_delay_millis=every))
    trace.set_tracer_provider(provider)


def _exporter() -> SpanExporter:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import SpanExporter

    class ForkedExporter(SpanExporter):
        """The SDK's, made anew in a forked process: two of them over one connection would write into each other's requests."""

        def __init__(self) -> None:
            self._made, self._pid = OTLPSpanExporter(), os.getpid()

        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            if self._pid != os.getpid():
                self._made, self._pid = OTLPSpanExporter(), os.getpid()
            return self._made.export(spans)

        def shutdown(self) -> None:
            self._made.shutdown()  # type: ignore[no-untyped-call]

    return ForkedExporter()
