"""Headers: what every response says to browsers, errors included."""

from __future__ import annotations

import logging

from starlette.datastructures import MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

logger = logging.getLogger("holdfast.web")

#: Nothing is loaded from elsewhere, nothing in a page runs but files of ours, and no page of others may hold one of ours.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
#: A year, in seconds. Only where the request came encrypted: over http browsers ignore it.
HSTS = "max-age=31536000"
#: What is the same for everybody, and may be kept by browsers.
STATIC = "/static/"
#: Where the door leaves a cookie to be set with the response (scope["state"]).
COOKIE = "holdfast_cookie"


class Headers:
    """Adds them. Plain ASGI, as Starlette's BaseHTTPMiddleware would hold back streams of events."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun = False

        async def adding(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                self._add(scope, MutableHeaders(scope=message))
            await send(message)

        try:
            await self.app(scope, receive, adding)
        except Exception:
            # What is outside of all middleware would answer without these headers; raised again, it still logs the error.
            if not begun:
                await PlainTextResponse("Something went wrong; the server's log says what.", 500)(scope, receive, adding)
            raise

    def _add(self, scope: Scope, headers: MutableHeaders) -> None:
        for name, value in HEADERS.items():
            headers.setdefault(name, value)
        if not scope["path"].removeprefix(scope.get("root_path", "")).startswith(STATIC):
            headers.setdefault("Cache-Control", "no-store")
        if scope["scheme"] == "https":
            headers.setdefault("Strict-Transport-Security", HSTS)
        cookie = scope.get("state", {}).get(COOKIE)
        if cookie is not None:
            headers.append("Set-Cookie", cookie)
