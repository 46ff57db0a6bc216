"""http_get against servers on loopback, which a test may allow: redirects, bounds, and names that
change their minds.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from perdure.flows.core.errors import RoundStopped
from perdure.flows.core.json_values import storable
from perdure.flows.core.public_addresses import Address, ForbiddenAddress
from perdure.flows.executors.http import REDIRECTS, Fetcher, NotFetched, _checked, http_get
from perdure.flows.rounds.context import RoundContext


class Pages(BaseHTTPRequestHandler):
    """The responses of each path."""

    protocol_version = "HTTP/1.1"
    asked: list[str] = []  # noqa: RUF012  shared by all requests of a test

    def do_GET(self) -> None:
        self.asked.append(self.path)
        name, _, rest = self.path[1:].partition("/")
        if name == "to":
            self._answer(302, b"", Location=rest.replace("@", "://", 1))
        elif name == "round":
            self._answer(302, b"", Location="/round")
        elif name == "long":
            self._answer(200, b"x" * 5000)
        elif name == "drip":
            self.send_response(200)
            self.end_headers()
            while True:
                self.wfile.write(b".")
                self.wfile.flush()
                time.sleep(0.02)
        elif name == "latin":
            self._answer(
                200,
                "häuser".encode("latin-1"),
                **{"Content-Type": "text/plain; charset=iso-8859-1"},
            )
        elif name == "claims":
            self._answer(
                200,
                rest.encode(),
                **{"Content-Type": f"text/plain; charset={rest.partition('/')[0]}"},
            )
        elif name == "gone":
            self._answer(404, b"nothing here")
        else:
            self._answer(200, b"hello", **{"Content-Type": "text/plain"})

    def _answer(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for header, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(header, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Do nothing: no log."""

    def handle(self) -> None:
        try:
            super().handle()
        except OSError:
            return  # the reader has left, as some tests want it to


@pytest.fixture
def pages() -> Iterator[str]:
    Pages.asked = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def loopback(address: Address) -> bool:
    return str(address) == "127.0.0.1"


def test_a_page_is_read(pages: str) -> None:
    assert Fetcher(loopback).get(f"{pages}/a?b=c#d") == {
        "url": f"{pages}/a?b=c#d",
        "status": 200,
        "type": "text/plain",
        "text": "hello",
    }
    assert Pages.asked == ["/a?b=c"]
    assert Fetcher(loopback).get(f"{pages}/latin")["text"] == "häuser"
    assert (gone := Fetcher(loopback).get(f"{pages}/gone"))["status"] == 404 and gone[
        "text"
    ] == "nothing here"


def test_a_long_page_is_cut_and_said_to_be(pages: str) -> None:
    assert Fetcher(loopback, page_bytes=100).get(f"{pages}/long") | {"url": ""} == {
        "url": "", "status": 200, "type": "text/plain", "text": "x" * 100, "cut": "the first 100 bytes",
    }  # fmt: skip


def test_redirects_are_followed_and_counted(pages: str) -> None:
    assert Fetcher(loopback).get(f"{pages}/to//there") | {"text": ""} == {
        "url": f"{pages}/there",
        "status": 200,
        "type": "text/plain",
        "text": "",
    }
    with pytest.raises(NotFetched, match=f"more than {REDIRECTS} redirects"):
        Fetcher(loopback).get(f"{pages}/round")
    assert Pages.asked.count("/round") == REDIRECTS + 1


@pytest.mark.parametrize(
    "there",
    [
        "http@169.254.169.254/latest",
        "http@10.0.0.1/",
        "http@[::1]/",
        "http@0xa.1/",
        "http@[::ffff:10.0.0.1]/",
    ],
)
def test_a_redirect_into_a_network_of_ones_own_is_refused(pages: str, there: str) -> None:
    with pytest.raises(ForbiddenAddress):
        Fetcher(loopback).get(f"{pages}/to/{there}")


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "ftp://example.com/", "gopher://example.com/", "//example.com", "example.com", "http://", "http://a:b@example.com/",
            "http://example.com:0/", "http://example.com:99999/", "http://[::1", "javascript:alert(1)", ""],
)  # fmt: skip
def test_what_is_no_page_is_said_to_be_none(url: str) -> None:
    with pytest.raises(NotFetched):
        Fetcher().get(url)


def test_a_name_that_changes_its_mind_is_asked_once(
    pages: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DNS rebinding: public when it is checked, private when it is connected to.

    The address that was checked is the one connected to.
    """
    port = int(pages.rpartition(":")[2])
    answers = iter(["127.0.0.1", "10.0.0.1", "10.0.0.1"])

    def rebind(host: str, port: int, *_: Any, **__: Any) -> list[Any]:
        address = next(answers) if host == "rebind.example" else host
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setattr(socket, "getaddrinfo", rebind)
    assert Fetcher(loopback).get(f"http://rebind.example:{port}/")["text"] == "hello"
    assert next(answers) == "10.0.0.1", "it was asked once"


def test_a_name_that_changes_its_mind_at_a_redirect_is_refused(
    pages: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = int(pages.rpartition(":")[2])
    answers = iter(["127.0.0.1", "10.0.0.1"])
    real = socket.getaddrinfo

    def rebind(host: str, port: int, *rest: Any, **more: Any) -> list[Any]:
        return real(next(answers) if host == "rebind.example" else host, port, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", rebind)
    with pytest.raises(ForbiddenAddress, match=r"rebind\.example resolves to 10\.0\.0\.1"):
        Fetcher(loopback).get(f"http://rebind.example:{port}/to//there")
    assert Pages.asked == ["/to//there"]


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://8.8.8.8#@127.0.0.1/", "8.8.8.8"),
        ("http://8.8.8.8?@127.0.0.1/", "8.8.8.8"),
        ("http://8.8.8.8/@127.0.0.1/", "8.8.8.8"),
        ("http://8.8.8.8@127.0.0.1/", None),
        ("http://8.8.8.8\\@127.0.0.1/", None),
        ("http://127.0.0.1\\@8.8.8.8/", None),
        ("http://8.8.8.8%40127.0.0.1/", "8.8.8.8%40127.0.0.1"),
        ("http://@127.0.0.1/", None),
        ("http://8.8.8.8:80@127.0.0.1/", None),
        ("ht\ntp://127.0.0.1\t/", "127.0.0.1"),
    ],
)
def test_the_host_that_is_judged_is_the_one_that_is_asked(url: str, host: str | None) -> None:
    """With anything around it: a user, a fragment, a backslash, a line's end."""
    if host is None:
        with pytest.raises(NotFetched):
            _checked(url)
    else:
        assert _checked(url).hostname == host


@pytest.mark.parametrize(
    "charset",
    [
        "nonsense",
        "unicode_escape",
        "raw_unicode_escape",
        "utf-7",
        "idna",
        "punycode",
        "hex",
        "undefined",
    ],
)
def test_a_page_is_text_whatever_charset_it_claims(pages: str, charset: str) -> None:
    text = Fetcher(loopback).get(f"{pages}/claims/{charset}/\\ud800+2AA-")["text"]
    assert storable(text, "it") == f"{charset}/\\ud800+2AA-"


def test_a_handshake_that_drips_is_left_when_the_time_is_over_and_when_nobody_wants_it() -> None:
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def drip() -> None:
            for _ in range(2):
                connection, _address = listening.accept()
                with connection:
                    try:
                        connection.sendall(
                            b"\x16\x03\x03\x40\x00"
                        )  # a record of 16 KiB begins, and goes on a byte at a time
                        while not over.wait(0.02):
                            connection.sendall(b".")
                    except OSError:
                        continue

        thread = threading.Thread(target=drip)
        thread.start()
        url = f"https://127.0.0.1:{listening.getsockname()[1]}/"
        try:
            with pytest.raises(NotFetched, match=r"within 0.3 s"):
                Fetcher(loopback, seconds=0.3).get(url)
            cancelled = threading.Event()
            threading.Timer(0.1, cancelled.set).start()
            with pytest.raises(RoundStopped):
                Fetcher(loopback, seconds=600).get(url, cancelled)  # longer than a test may take
        finally:
            over.set()
            thread.join()


def test_a_server_that_drips_is_left_when_the_time_is_over(pages: str) -> None:
    with pytest.raises(NotFetched, match=r"within 0.3 s"):
        Fetcher(loopback, seconds=0.3).get(f"{pages}/drip")


def test_a_round_that_nobody_wants_stops_reading(pages: str) -> None:
    cancelled = threading.Event()
    threading.Timer(0.1, cancelled.set).start()
    with pytest.raises(RoundStopped):
        Fetcher(loopback, seconds=60).get(f"{pages}/drip", cancelled)


def test_the_command_reads_nothing_of_the_workers_own_network(pages: str) -> None:
    with pytest.raises(ForbiddenAddress):
        http_get(RoundContext("g"), pages)
    assert Pages.asked == []
