"""Export of spans by OpenTelemetry's SDK.

Perdure's own programs set up the export if OpenTelemetry's environment variables ask for it. If an
app has set a tracer provider, that provider is used instead. Spans are sent in the background. If
the collector is down or slow, spans may be lost, but no round waits or fails.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from perdure.worker.tracing.switch import is_on

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

logger = logging.getLogger("perdure.telemetry")

#: Seconds that a process which ends waits for a collector to take its last spans.
PATIENCE = 3.0
#: Seconds between two prompt exports. Requests made meanwhile are combined.
APART = 0.05


def flush(seconds: float = PATIENCE) -> None:
    """Send the last spans of a process that ends. Wait at most ``seconds``.

    If the collector has not taken the spans by then, they are lost, and a warning is logged.
    """
    force = _force()
    if force is None:
        return
    # In a thread, as the SDK waits for a silent collector without limit.
    thread = threading.Thread(target=_send, args=(force,), name="perdure-flush", daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        logger.warning(
            "the collector has not taken the last spans within %g s; they are given up", seconds
        )


class PromptExport:
    """Sends ended spans soon, in the background.

    It is used for a span that is the parent of spans in other processes. The span then reaches the
    collector even if this process is killed.
    """

    def __init__(self) -> None:
        self._requested = threading.Event()
        self._pid: int | None = None

    def ask(self) -> None:
        """Request an export of ended spans, and return at once.

        Requests within ``APART`` seconds share one export.
        """
        if self._pid != os.getpid():  # the first call, or a fork, which copies no thread
            self._pid, self._requested = os.getpid(), threading.Event()
            threading.Thread(
                target=self._send_forever,
                args=(self._requested,),
                name="perdure-spans",
                daemon=True,
            ).start()
        self._requested.set()

    def _send_forever(self, requested: threading.Event) -> None:
        pause = threading.Event()  # never set, so that wait() only pauses
        while requested.wait():
            requested.clear()
            if (force := _force()) is not None:
                _send(force)
            pause.wait(APART)


soon = PromptExport()


def _force() -> Callable[[], Any] | None:
    """Return the tracer provider's method that sends spans now (``force_flush``).

    None if this process does not trace, or if the provider has no such method.
    """
    if not is_on():
        return None
    from opentelemetry import trace

    return getattr(trace.get_tracer_provider(), "force_flush", None)


def _send(force: Callable[[], Any]) -> None:
    try:
        force()
    except Exception as error:
        logger.warning("spans could not be sent: %s: %s", type(error).__name__, error)


ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
SPOKEN = "http/protobuf"
#: Milliseconds between two exports unless OTEL_BSP_SCHEDULE_DELAY is set. It is shorter than the
#: SDK's five seconds, because a killed process loses its unsent spans. If it were even shorter,
#: requests would cost more than their content.
EVERY = 250


def set_up() -> None:
    """Set up the export of traces if OpenTelemetry's environment variables request it.

    Nothing happens if a tracer provider is set already. Errors are logged and not raised.
    """
    if not _requested() or is_on():
        return
    try:
        _set_up()
    except ImportError as error:
        logger.warning(
            "traces are configured (%s), but cannot be made: %s; pip install 'perdure[otel]'",
            " or ".join(ENDPOINTS),
            error,
        )
    except Exception as error:
        # For example a setting that OpenTelemetry cannot read. Rounds then run without traces.
        logger.error("traces are configured, but are not made: %s: %s", type(error).__name__, error)


@contextmanager
def exporting() -> Iterator[None]:
    """Set up the export of traces for the ``with`` block. Send the last spans at its end."""
    set_up()
    try:
        yield
    finally:
        flush()


def _requested() -> bool:
    environment = os.environ.get
    if (
        not any(environment(name) for name in ENDPOINTS)
        or environment("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    ):
        return False
    if "otlp" not in environment("OTEL_TRACES_EXPORTER", "otlp"):
        return False
    protocol = next((text for name in PROTOCOLS if (text := environment(name))), SPOKEN)
    if protocol != SPOKEN:
        logger.warning(
            "no traces: %s asks for %s, and %s is what Perdure speaks; "
            "collectors listen for it on port 4318",
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

    resource = (
        Resource.create()
        .merge(Resource({SERVICE_NAME: "perdure"}))
        .merge(OTELResourceDetector().detect())
    )
    every = None if os.environ.get("OTEL_BSP_SCHEDULE_DELAY") else EVERY
    # Not shut down at exit: for a collector that does not respond the SDK would wait half a minute.
    # See flush.
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(_exporter(), schedule_delay_millis=every))
    trace.set_tracer_provider(provider)


def _exporter() -> SpanExporter:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import SpanExporter

    class ForkedExporter(SpanExporter):
        """An exporter of spans that creates the SDK's exporter again in a forked process.

        If two processes shared one connection, each would write into the requests of the other.
        """

        def __init__(self) -> None:
            self._exporter, self._pid = OTLPSpanExporter(), os.getpid()

        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            """Export spans with an exporter of this process."""
            if self._pid != os.getpid():
                self._exporter, self._pid = OTLPSpanExporter(), os.getpid()
            return self._exporter.export(spans)

        def shutdown(self) -> None:
            """Shut down OpenTelemetry's exporter of spans."""
            self._exporter.shutdown()  # type: ignore[no-untyped-call]

    return ForkedExporter()
