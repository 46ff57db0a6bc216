"""Security headers of every HTTP response, error responses included."""

from __future__ import annotations

import logging

from starlette.datastructures import MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

logger = logging.getLogger("perdure.web")

#: A page loads only files of this server and runs no inline scripts. No page of another site may
#: embed it.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
#: A year, in seconds. It is sent over https only: browsers ignore it over http.
HSTS = "max-age=31536000"
#: Files that are the same for every user, so browsers may cache them.
STATIC = "/static/"
#: Key in scope["state"] of a cookie that the Authenticator wants to set with the response.
COOKIE_KEY = "perdure_cookie"


class SecurityHeaders:
    """An ASGI middleware that adds security headers to every response.

    It does not use Starlette's BaseHTTPMiddleware, which would delay event streams.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the app for a request, and add the security headers to its response.

        If the app raises an error before its response begins, send a 500 response. The error is
        raised again.
        """
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        has_started = False

        async def send_with_headers(message: Message) -> None:
            nonlocal has_started
            if message["type"] == "http.response.start":
                has_started = True
                self._add(scope, MutableHeaders(scope=message))
            await send(message)

        try:
            await self.app(scope, receive, send_with_headers)
        except Exception:
            # Starlette's own handler for errors is outside of all middleware and would answer
            # without these headers. The exception is raised again, so the error is still logged.
            if not has_started:
                await PlainTextResponse("Internal error. See the server's log.", 500)(
                    scope, receive, send_with_headers
                )
            raise

    def _add(self, scope: Scope, headers: MutableHeaders) -> None:
        for name, value in HEADERS.items():
            headers.setdefault(name, value)
        if not scope["path"].removeprefix(scope.get("root_path", "")).startswith(STATIC):
            headers.setdefault("Cache-Control", "no-store")
        if scope["scheme"] == "https":
            headers.setdefault("Strict-Transport-Security", HSTS)
        cookie = scope.get("state", {}).get(COOKIE_KEY)
        if cookie is not None:
            headers.append("Set-Cookie", cookie)
