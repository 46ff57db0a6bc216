"""Real MCP servers for tests: servers of the package index over stdio and HTTP, and tools to
disturb them.
"""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from perdure.flows.executors.mcp import mcp_commands
from perdure.flows.executors.mcp.event_loop import background
from perdure.flows.rounds.context import RoundContext
from tests.support.payment_mcp_server import result_of
from tests.support.redis_servers import until

TIME = [sys.executable, "-m", "mcp_server_time", "--local-timezone", "UTC"]
GIT = [sys.executable, "-m", "mcp_server_git"]
#: The server of the package `mcp-server-git`, as it is, behind the HTTP of the library that it is
#: written with.
_OVER_HTTP = "import sys; from mcp_server_git.server import create_server as make; make(None).run('streamable-http', port=int(sys.argv[1]))"

#: The servers are development dependencies: they may be missing at a desk, and are required where
#: CI is set.
INSTALLED = all(
    importlib.util.find_spec(name) for name in ("mcp", "mcp_server_time", "mcp_server_git")
)
needs_servers = pytest.mark.skipif(
    not INSTALLED and "CI" not in os.environ,
    reason="mcp-server-time and mcp-server-git are not installed",
)


@pytest.fixture
def context() -> RoundContext:
    """The context of a round that calls a tool."""
    return RoundContext("g")


@pytest.fixture(autouse=True, scope="module")
def no_server_stays() -> Iterator[None]:
    """Close all sessions after the tests of a module, and wait for the end of their servers."""
    before = {*servers_of(os.getpid(), "mcp_server")}
    yield
    background.close()
    until(
        lambda: before.issuperset(servers_of(os.getpid(), "mcp_server")), "the end of all servers"
    )


def time_command(**settings: Any) -> Any:
    """Return ``time.get_current_time`` of mcp-server-time."""
    [command] = mcp_commands("time", command=TIME, tools=["get_current_time"], **settings)
    return command


def servers_of(process: int, module: str = "mcp_server_time") -> list[int]:
    """Return the processes of a server that a process has started, in any of its threads."""
    found = []
    for thread in Path(f"/proc/{process}/task").iterdir():
        try:
            pids = [int(pid) for pid in thread.joinpath("children").read_text().split()]
            found += [
                pid for pid in pids if module.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
            ]
        except OSError:
            continue  # it ended meanwhile
    return found


@contextmanager
def git_over_http(port: int) -> Iterator[subprocess.Popen[bytes]]:
    """Start mcp-server-git on a port; kill it afterwards."""
    running = subprocess.Popen(
        [sys.executable, "-c", _OVER_HTTP, str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until(lambda: _answers(port) or running.poll() is not None, "the HTTP server", 30)
        yield running
    finally:
        running.kill()
        running.wait()


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


@contextmanager
def refusing(status: int, **headers: str) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """Start a web server that answers each POST with this status; yield its URL and the headers
    that it received.
    """
    seen: list[dict[str, str]] = []

    class Refusing(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            seen.append({name.lower(): value for name, value in self.headers.items()})
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(status)
            for name, value in {**headers, "Content-Length": "0"}.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Do nothing: no log."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/mcp", seen
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def till_over_http(calls: Path) -> Iterator[str]:
    """Serve the till of ``tests.support.payment_mcp_server`` over HTTP; yield its URL."""

    class Till(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
            if "id" not in asked:
                self._reply(202)
                return
            result = result_of(asked["method"], asked.get("params") or {}, str(calls))
            self._reply(200, {"jsonrpc": "2.0", "id": asked["id"], "result": result})

        def do_GET(self) -> None:
            self._reply(405)

        def do_DELETE(self) -> None:
            self._reply(405)

        def _reply(self, status: int, data: Any = None) -> None:
            body = b"" if data is None else json.dumps(data).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Do nothing: no log."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Till)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/mcp"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
