"""Connections of the server process: a client that stalls loses its own, and no flood of them shuts
it for others.
"""

from __future__ import annotations

import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress

import httpx2
import pytest
import uvicorn
from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from perdure.worker.web.connections import BoundedConnection, most_connections
from perdure.worker.web.serve import WebServer
from tests.support.redis_servers import until

PATIENCE = 30.0


class Hasty(BoundedConnection):
    head_seconds = body_seconds = read_seconds = 0.3
    most = 12


class Crowded(BoundedConnection):
    """Nothing times out; only the number is bounded."""

    head_seconds = body_seconds = read_seconds = 600.0
    most = 12


#: By port: how many responses and how many requests have begun, and the connections that are open.
PORTS: Counter[int] = Counter()
BEGUN: Counter[int] = Counter()
OPEN: dict[int, Callable[[], set[object]]] = {}


async def answering(scope: Scope, receive: Receive, send: Send) -> None:
    """Read the body, and answer with more than a socket's buffers hold where that is asked for."""
    BEGUN[scope["server"][1]] += 1
    while (await receive()).get("more_body"):
        pass
    size = 50_000_000 if scope["path"] == "/much" else 2
    PORTS[scope["server"][1]] += 1
    await send(
        {
            "type": "http.response.start",
            "status": 200,
            "headers": [(b"content-length", str(size).encode())],
        }
    )
    await send({"type": "http.response.body", "body": b"o" * size})


@contextmanager
def serving(protocol: type[BoundedConnection]) -> Iterator[int]:
    listening = socket.create_server(("127.0.0.1", 0), backlog=200)
    server = uvicorn.Server(
        uvicorn.Config(answering, http=protocol, log_config=None, lifespan="off")
    )
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        until(lambda: server.started, "the server")
        port = listening.getsockname()[1]
        OPEN[port] = lambda: set(server.server_state.connections)
        yield port
    finally:
        server.should_exit = server.force_exit = True
        thread.join(20)
        listening.close()


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)


def is_closed(connection: socket.socket) -> bool:
    """Return whether the server closes it, reading to the end; raise TimeoutError if not."""
    try:
        while connection.recv(1 << 20):
            pass
    except ConnectionResetError:
        pass
    return True


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc",
    ],
    ids=["nothing", "half a head", "half a body"],
)
def test_a_connection_whose_request_does_not_arrive_is_closed(sent: bytes) -> None:
    with serving(Hasty) as port, closing(connected(port)) as connection:
        connection.sendall(sent)
        assert is_closed(connection)


def test_a_head_that_drips_is_not_given_more_time_by_each_byte() -> None:
    with serving(Hasty) as port, closing(connected(port)) as connection:
        closed = threading.Event()
        reading = threading.Thread(target=lambda: is_closed(connection) and closed.set())
        reading.start()
        while not closed.wait(0.05):
            with suppress(OSError):  # it was closed in between
                connection.sendall(b"x")
        reading.join(PATIENCE)
        assert closed.is_set()


def test_a_response_that_is_not_read_is_given_up() -> None:
    with serving(Hasty) as port, closing(connected(port)) as connection:
        connection.sendall(b"GET /much HTTP/1.1\r\nHost: x\r\n\r\n")
        until(lambda: PORTS[port] > 0, "the response begins")
        until(lambda: not OPEN[port](), "the server gives up", PATIENCE)


def test_silent_connections_shut_the_server_for_nobody() -> None:
    with serving(Crowded) as port:
        silent = [connected(port) for _ in range(3 * Crowded.most)]
        try:
            for _ in range(5):
                assert httpx2.get(f"http://127.0.0.1:{port}/", timeout=PATIENCE).status_code == 200
            assert is_closed(silent[0])  # the oldest one was closed for others
        finally:
            for each in silent:
                each.close()


def test_a_request_under_way_is_not_closed_for_a_new_connection() -> None:
    with serving(Crowded) as port, closing(connected(port)) as busy:
        busy.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\na")
        until(lambda: BEGUN[port] > 0, "the request to be under way")
        silent = [connected(port) for _ in range(3 * Crowded.most)]
        assert is_closed(silent[0])
        until(lambda: len(OPEN[port]()) <= Crowded.most, "no more than so many")
        busy.sendall(b"b")
        assert busy.recv(1000).startswith(b"HTTP/1.1 200")
        for each in silent:
            each.close()


def test_the_control_room_is_served_so_within_its_descriptors() -> None:
    assert WebServer(FastAPI(), lambda: None, "").config.http is BoundedConnection  # type: ignore[arg-type]
    assert most_connections() > 0 and BoundedConnection.most == most_connections()
