"""Carried: the caller's trace over HTTP, so that a run submitted by URL is in the trace of its caller. Loads nothing of OpenTelemetry."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from worker.telemetry.switch import Harmless, is_on

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]
#: What W3C's trace context consists of.
HEADERS = ("traceparent", "tracestate")


def headers() -> dict[str, str]:
    """What a request says of the span that it is made in; nothing where nobody traces."""
    carrier: dict[str, str] = {}
    if is_on():
        from worker.telemetry.roots import W3C

        with Harmless("a request"):
            W3C.inject(carrier)
    return carrier


class CarriedOn:
    """ASGI middleware: what is traced in a request goes on with the trace that its headers name.

    Where the app is instrumented by somebody, there is a span of the request already, and it stays the current one.
    """

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        token = None
        if scope["type"] == "http" and is_on():
            with Harmless("a request"):
                token = _attached({name.decode("latin-1"): text.decode("latin-1") for name, text in scope["headers"]})
        try:
            await self._app(scope, receive, send)
        finally:
            if token is not None:
                from opentelemetry.context import detach

                detach(token)


def _attached(told: dict[str, str]) -> Any:
    from opentelemetry import trace
    from opentelemetry.context import attach, get_current

    from worker.telemetry.roots import W3C

    if "traceparent" not in told or trace.get_current_span().get_span_context().is_valid:
        return None
    return attach(W3C.extract({name: told[name] for name in HEADERS if name in told}, get_current()))
