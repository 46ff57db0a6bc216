"""http_get: read a page of the public internet; nothing of the worker's own network."""

from __future__ import annotations

import codecs
import http.client
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import SplitResult, urljoin, urlsplit

from flows.commands import command
from flows.context import RoundContext
from flows.errors import RoundStopped
from flows.executors.addresses import Address, ForbiddenAddress, is_foreign, resolve

#: Bytes of a page that are read: about 25,000 tokens; and seconds that one command may take, redirects and all.
PAGE_BYTES, SECONDS = 100_000, 20.0
#: Redirects that are followed.
REDIRECTS = 5
HEADERS = {"User-Agent": "holdfast", "Accept": "text/*, application/json", "Accept-Encoding": "identity"}
#: How often the clock and the cancel token are looked at, in seconds.
_SLICE = 0.05
_PORTS = {"http": 80, "https": 443}
#: Codecs that are no charsets of pages: some make what is no text, or take a time that grows with the square of the length.
_NO_CHARSETS = frozenset(
    {"idna", "punycode", "raw-unicode-escape", "raw_unicode_escape", "undefined", "unicode-escape", "unicode_escape", "utf-7"}
)
_MOVED = frozenset({301, 302, 303, 307, 308})


class NotFetched(OSError):
    """The page could not be read; says why."""


@command(name="http_get", idempotent=True)
def http_get(context: RoundContext, url: str) -> dict[str, Any]:
    """Read a page of the public internet (http or https); long ones are cut."""
    return Fetcher().get(url, context.cancelled)


@dataclass
class Fetcher:
    """Reads pages.

    Attributes:
        allowed: which addresses may be connected to.
        seconds, page_bytes: see ``SECONDS`` and ``PAGE_BYTES``.
        tls: how servers prove who they are.
    """

    allowed: Callable[[Address], bool] = is_foreign
    seconds: float = SECONDS
    page_bytes: int = PAGE_BYTES
    tls: ssl.SSLContext = field(default_factory=ssl.create_default_context)

    def get(self, url: str, cancelled: threading.Event | None = None) -> dict[str, Any]:
        """The page: ``url`` (after redirects), ``status``, ``type``, ``text``, and ``cut`` where it was longer.

        Raises:
            RoundStopped: ``cancelled`` was set.
            ForbiddenAddress: it, or a redirect, leads to an address that is not allowed.
            NotFetched: the URL cannot be read, or nobody answers in time.
        """
        end = time.monotonic() + self.seconds
        for _ in range(REDIRECTS + 1):
            parts = _checked(url)
            try:
                answer = self._ask(parts, end, cancelled or threading.Event())
            except ForbiddenAddress:
                raise
            except (OSError, http.client.HTTPException, ValueError) as error:
                late = f" within {self.seconds:g} s" if time.monotonic() >= end else ""
                raise NotFetched(f"{parts.hostname} gave no page{late}: {str(error) or type(error).__name__}") from error
            if isinstance(answer, dict):
                return {"url": url, **answer}
            url = urljoin(url, answer)
        raise NotFetched(f"more than {REDIRECTS} redirects, the last one to {url[:200]}")

    def _ask(self, parts: SplitResult, end: float, cancelled: threading.Event) -> dict[str, Any] | str:
        """The page, or where it has moved to."""
        host, port = str(parts.hostname), parts.port or _PORTS[parts.scheme]
        connection = http.client.HTTPConnection(host, port)
        connection.sock = self._connect(resolve(host, port, self.allowed), port, end)
        if parts.scheme == "https":
            # Not shaken hands yet: whoever does so a byte at a time is cut off, too.
            connection.sock = self.tls.wrap_socket(connection.sock, server_hostname=host, do_handshake_on_connect=False)
        with connection.sock as sock, _cut_off(sock, end, cancelled):
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
            raise RoundStopped(f"nobody wants the round any more, so {host} is not read on")
        if time.monotonic() >= end:  # what was read may be no more than the beginning
            raise TimeoutError("it did not come to its end")
        text = _text(data[: self.page_bytes], response.headers.get_content_charset("utf-8"))
        page: dict[str, Any] = {"status": response.status, "type": response.headers.get_content_type(), "text": text}
        return page if len(data) <= self.page_bytes else {**page, "cut": f"the first {self.page_bytes} bytes"}

    @staticmethod
    def _connect(addresses: list[Address], port: int, end: float) -> socket.socket:
        """A connection to the first address that takes one. To the address, not to the name: that could mean another by now."""
        failed: OSError = TimeoutError("no address answered")
        for address in addresses:
            try:
                return socket.create_connection((str(address), port), timeout=max(0.001, end - time.monotonic()))
            except OSError as error:
                failed = error
        raise failed


def _text(data: bytes, charset: str) -> str:
    """The page as text that JSON can hold, whatever charset it claims."""
    try:
        known = codecs.lookup(charset).name not in _NO_CHARSETS
        text = data.decode(charset if known else "utf-8", "replace")
    except (LookupError, ValueError):
        text = data.decode("utf-8", "replace")
    return text.encode("utf-8", "replace").decode("utf-8")


def _checked(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise NotFetched(f"{url[:200]!r} is no URL: {error}") from error
    if parts.scheme not in _PORTS or not parts.hostname or port == 0:
        raise NotFetched(f"{url[:200]!r} should begin with http:// or https:// and name a host")
    if parts.username is not None or parts.password is not None:
        raise NotFetched("a URL with a user or a password is not read")
    return parts


@contextmanager
def _cut_off(connection: socket.socket, end: float, cancelled: threading.Event) -> Iterator[None]:
    """Shut the connection down when the time is over or the round is not wanted: a server may send a byte now and then for ever."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(_SLICE):
            if cancelled.is_set() or time.monotonic() >= end:
                with suppress(OSError):
                    socket.socket.shutdown(connection, socket.SHUT_RDWR)  # of an encrypted one too, without its farewell
                return

    watcher = threading.Thread(target=watch, name="http-get-watch", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
