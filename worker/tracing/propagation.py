"""Propagation of the caller's trace over HTTP.

A run that is submitted over HTTP is in the trace of its caller. This module imports OpenTelemetry
only when it is needed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from perdure.worker.tracing.switch import SuppressTracingErrors, is_on

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]
#: The headers of W3C's trace context.
HEADERS = ("traceparent", "tracestate")


def headers() -> dict[str, str]:
    """Return the HTTP headers that tell a server the current span.

    They are empty if this process does not trace, or if no span is current.
    """
    carrier: dict[str, str] = {}
    if is_on():
        from perdure.worker.tracing.run_spans import W3C

        with SuppressTracingErrors("a request"):
            W3C.inject(carrier)
    return carrier


class TraceContextMiddleware:
    """ASGI middleware that continues the caller's trace.

    The caller's span, which the headers of the request name, becomes the current span. If the app
    is instrumented already, the request has a span of its own, and that span stays the current one.
    Nothing happens if this process does not trace.
    """

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        token = None
        if scope["type"] == "http" and is_on():
            with SuppressTracingErrors("a request"):
                token = _attached(
                    {
                        name.decode("latin-1"): text.decode("latin-1")
                        for name, text in scope["headers"]
                    }
                )
        try:
            await self._app(scope, receive, send)
        finally:
            if token is not None:
                from opentelemetry.context import detach

                detach(token)


def _attached(headers: dict[str, str]) -> Any:
    from opentelemetry import trace
    from opentelemetry.context import attach, get_current

    from perdure.worker.tracing.run_spans import W3C

    if "traceparent" not in headers or trace.get_current_span().get_span_context().is_valid:
        return None
    return attach(
        W3C.extract({name: headers[name] for name in HEADERS if name in headers}, get_current())
    )
