"""A collector of OpenTelemetry traces, and a tracer provider that exports to it.

The collector receives OTLP (protobuf over HTTP) on a real socket.
"""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

import pytest
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, Sampler

from tests.support.redis_servers import until

PATH = "/v1/traces"
#: OTLP's number of the status of a failed span.
ERROR = 2
#: takes: as it should. refuses: answers 404, as servers do that are no collector. hangs: never
#: answers.
Mood = Literal["takes", "refuses", "hangs"]


@dataclass(frozen=True)
class Span:
    """A span as it came in; ids as they are written, times in ns since 1970.

    ``kind`` and ``status`` are OTLP's numbers.
    """

    name: str
    trace: str
    id: str
    parent: str
    kind: int
    start: int
    end: int
    status: int
    message: str
    attributes: Mapping[str, Any]
    links: tuple[tuple[str, str], ...]
    resource: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        """Return Perdure's attribute of this name, or None."""
        return self.attributes.get(f"perdure.{name}")


@dataclass
class Collector:
    """The received spans."""

    spans: list[Span] = field(default_factory=list)
    raw: list[bytes] = field(default_factory=list)
    asked: int = 0
    mood: Mood = "takes"
    ending: threading.Event = field(default_factory=threading.Event)
    url: str = ""

    def of(self, run_id: str) -> list[Span]:
        """Return the spans of a run: its root first, then its rounds by their start."""
        return sorted(
            (span for span in self.spans if span["run_id"] == run_id),
            key=lambda span: (span["attempt"] or 0, span.start),
        )

    def tree(self, run_id: str, rounds: int, seconds: float = 20.0) -> tuple[Span, list[Span]]:
        """Wait for this number of spans of rounds; return the run's root, and the rounds by step
        and attempt. It is one tree, or the test fails.
        """
        until(
            lambda: len(self.of(run_id)) > rounds,
            f"{rounds} spans of rounds and a root of run {run_id}",
            seconds,
        )
        found = self.of(run_id)
        roots = [span for span in found if span["step"] is None]
        assert len(roots) == 1, f"one root: {[span.name for span in found]}"
        [root] = roots
        told = sorted(
            (span for span in found if span is not root),
            key=lambda span: (span["step"], span["attempt"]),
        )
        assert {span.trace for span in found} == {root.trace}, "one trace"
        assert {span.parent for span in told} == {root.id}, (
            "every round is a child of the root, and of nothing else"
        )
        assert len({span.id for span in found}) == len(found)
        assert len(told) == rounds, [
            (span.name, span["step"], span["attempt"], span["outcome"]) for span in told
        ]
        return root, told


@contextmanager
def collector(mood: Mood = "takes") -> Iterator[Collector]:
    """Start a collector, closed afterwards; ``url`` is for OTEL_EXPORTER_OTLP_ENDPOINT."""
    found = Collector(mood=mood)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    server.collector = found  # type: ignore[attr-defined]
    found.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield found
    finally:
        found.ending.set()
        server.shutdown()
        server.server_close()
        thread.join(10)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    #: The sum of two small writes waits for an acknowledgement otherwise.
    wbufsize = -1
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Do nothing: no log."""

    def do_POST(self) -> None:
        """Receive an export."""
        found: Collector = self.server.collector  # type: ignore[attr-defined]
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        found.asked += 1
        if found.mood == "hangs":
            found.ending.wait()
            self.close_connection = True
            return
        if found.mood == "takes":
            assert self.path == PATH and self.headers["content-type"] == "application/x-protobuf"
            found.raw.append(body)
            found.spans += _spans(ExportTraceServiceRequest.FromString(body))
        self.send_response(200 if found.mood == "takes" else 404)
        answer = ExportTraceServiceResponse().SerializeToString()
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        with suppress(OSError):
            self.wfile.write(answer)


def _spans(request: ExportTraceServiceRequest) -> Iterator[Span]:
    for resource in request.resource_spans:
        about = _attributes(resource.resource.attributes)
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield Span(
                    name=span.name,
                    trace=span.trace_id.hex(),
                    id=span.span_id.hex(),
                    parent=span.parent_span_id.hex(),
                    kind=span.kind,
                    start=span.start_time_unix_nano,
                    end=span.end_time_unix_nano,
                    status=span.status.code,
                    message=span.status.message,
                    attributes=_attributes(span.attributes),
                    links=tuple((link.trace_id.hex(), link.span_id.hex()) for link in span.links),
                    resource=about,
                )


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: Any) -> Any:
    found = getattr(value, value.WhichOneof("value"))
    return [_value(each) for each in found.values] if hasattr(found, "values") else found


@contextmanager
def traced_to(
    collector: Collector, sampler: Sampler = ALWAYS_ON, every: float | None = None
) -> Iterator[TracerProvider]:
    """Set a provider for this process. (A process sets one for good; so it is only put in its
    place.)

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
