"""The command ``http_get``, which reads a page of the public internet.

It never reads a page of the worker's own network.
"""

from __future__ import annotations

import codecs
import http.client
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import SplitResult, urljoin, urlsplit

from perdure.flows.commands.command import command
from perdure.flows.core.errors import RoundStopped
from perdure.flows.core.public_addresses import Address, ForbiddenAddress, is_foreign, resolve
from perdure.flows.core.public_connections import connect, cut_off
from perdure.flows.rounds.context import RoundContext

#: Maximum bytes read of a page (about 25,000 tokens), and seconds for the whole command, including
#: redirects.
PAGE_BYTES, SECONDS = 100_000, 20.0
#: Maximum number of redirects.
REDIRECTS = 5
HEADERS = {
    "User-Agent": "perdure",
    "Accept": "text/*, application/json",
    "Accept-Encoding": "identity",
}
_PORTS = {"http": 80, "https": 443}
#: Python codecs that are refused as a page's charset. Some do not produce text, and some take time
#: that grows with the square of the length.
_NO_CHARSETS = frozenset(
    {
        "idna",
        "punycode",
        "raw-unicode-escape",
        "raw_unicode_escape",
        "undefined",
        "unicode-escape",
        "unicode_escape",
        "utf-7",
    }
)
_MOVED = frozenset({301, 302, 303, 307, 308})


class NotFetched(OSError):
    """Raised when a page could not be read. The message gives the reason."""


@command(name="http_get", idempotent=True)
def http_get(context: RoundContext, url: str) -> dict[str, Any]:
    """Read a page of the public internet (http or https); long pages are cut."""
    return Fetcher().get(url, context.cancelled)


@dataclass
class Fetcher:
    """A reader of web pages.

    Attributes:
        allowed: Returns whether the reader may connect to an address.
        seconds, page_bytes: See ``SECONDS`` and ``PAGE_BYTES``.
        tls: The settings with which servers' certificates are verified.
    """

    allowed: Callable[[Address], bool] = is_foreign
    seconds: float = SECONDS
    page_bytes: int = PAGE_BYTES
    tls: ssl.SSLContext = field(default_factory=ssl.create_default_context)

    def get(self, url: str, cancelled: threading.Event | None = None) -> dict[str, Any]:
        """Fetch a web page, following redirects. Return its address, status, type and text.

        The keys are ``url`` (after redirects), ``status``, ``type`` and ``text``. The result also
        has ``cut`` if the page was longer than ``page_bytes``. A page with an error status is
        returned, too.

        Args:
            cancelled: The cancel token of the round. None if the round cannot be cancelled.

        Raises:
            RoundStopped: ``cancelled`` was set.
            ForbiddenAddress: The URL or a redirect leads to an address that is not allowed.
            NotFetched: The URL is not valid, the page cannot be read in time, or there are more
                than ``REDIRECTS`` redirects.
        """
        end = time.monotonic() + self.seconds
        cancelled = threading.Event() if cancelled is None else cancelled
        for _ in range(REDIRECTS + 1):
            parts = _checked(url)
            try:
                answer = self._ask(parts, end, cancelled)
            except ForbiddenAddress:
                raise
            except (OSError, http.client.HTTPException, ValueError) as error:
                if cancelled.is_set():
                    raise RoundStopped(
                        f"the round was cancelled; the request to {parts.hostname} was given up"
                    ) from error
                late = f" within {self.seconds:g} s" if time.monotonic() >= end else ""
                raise NotFetched(
                    f"no page from {parts.hostname}{late}: {str(error) or type(error).__name__}"
                ) from error
            if isinstance(answer, dict):
                return {"url": url, **answer}
            url = urljoin(url, answer)
        raise NotFetched(f"more than {REDIRECTS} redirects, the last one to {url[:200]}")

    def _ask(
        self, parts: SplitResult, end: float, cancelled: threading.Event
    ) -> dict[str, Any] | str:
        """Send one HTTP request. Return the page as ``get`` does, or the URL of a redirect.

        Args:
            end: the deadline, as a time of ``time.monotonic``.

        Raises:
            ForbiddenAddress: The host has an address that is not allowed.
            RoundStopped: The round was cancelled while the page was read.
            OSError, HTTPException, ValueError: The page could not be read before ``end``.
        """
        host, port = str(parts.hostname), parts.port or _PORTS[parts.scheme]
        connection = http.client.HTTPConnection(host, port)
        connection.sock = connect(resolve(host, port, self.allowed), port, end)
        if parts.scheme == "https":
            # The handshake happens below, where a server that sends it a byte at a time is cut off
            # too.
            connection.sock = self.tls.wrap_socket(
                connection.sock, server_hostname=host, do_handshake_on_connect=False
            )
        with connection.sock as sock, cut_off(sock, end, cancelled):
            if isinstance(sock, ssl.SSLSocket):
                sock.do_handshake()
            target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            connection.request("GET", target, headers=HEADERS)
            response = connection.getresponse()
            moved = response.getheader("Location")
            if response.status in _MOVED and moved:
                return moved
            data = response.read(self.page_bytes + 1)
        if cancelled.is_set():
            raise RoundStopped(f"the round was cancelled; the request to {host} was given up")
        if time.monotonic() >= end:  # the data may be incomplete
            raise TimeoutError("the page was not complete in time")
        text = _text(data[: self.page_bytes], response.headers.get_content_charset("utf-8"))
        page: dict[str, Any] = {
            "status": response.status,
            "type": response.headers.get_content_type(),
            "text": text,
        }
        return (
            page
            if len(data) <= self.page_bytes
            else {**page, "cut": f"the first {self.page_bytes} bytes"}
        )


def _text(data: bytes, charset: str) -> str:
    """Decode a web page to text that JSON can hold.

    A page with an unknown or unsafe charset is decoded as UTF-8.
    """
    try:
        is_charset = codecs.lookup(charset).name not in _NO_CHARSETS
        text = data.decode(charset if is_charset else "utf-8", "replace")
    except (LookupError, ValueError):
        text = data.decode("utf-8", "replace")
    return text.encode("utf-8", "replace").decode("utf-8")


def _checked(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise NotFetched(f"{url[:200]!r} is not a valid URL: {error}") from error
    if parts.scheme not in _PORTS or not parts.hostname or port == 0:
        raise NotFetched(f"{url[:200]!r} should begin with http:// or https:// and name a host")
    if parts.username is not None or parts.password is not None:
        raise NotFetched("URLs with a user or a password are not accepted")
    return parts
