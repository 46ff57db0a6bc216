"""An MCP service over HTTP in the test's own process, that a test lets answer as servers do that
surprise their clients.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOOL = {"name": "t", "inputSchema": {"type": "object", "properties": {"x": {"type": "integer"}}}}


@dataclass
class Answer:
    """An HTTP response. A body that is no text is the result or the error of the request.

    If ``breaks``, the connection ends before the last byte of the response, or before the first
    one if there is no body.
    """

    body: Any = None
    status: int = 200
    kind: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    breaks: bool = False


def result(text: str = "ok") -> Answer:
    return Answer({"result": {"content": [{"type": "text", "text": text}]}})


def error(code: int, message: str, status: int = 200, **more: Any) -> Answer:
    return Answer({"error": {"code": code, "message": message, **more}}, status)


@dataclass
class OddService:
    """A service that knows its sessions.

    Attributes:
        answer: its answer to a call of a tool; None: nothing, before the test ends.
        tools: the tools that it lists.
        page: its answer to a request for a page of the list; None: as ``tools`` says.
        next_cursor: the cursor of each of its lists.
        pong: its answer to a ping; None: nothing, before the test ends.
        has_moved: whether it redirects each request to another path.
        keeps_sessions: whether it answers no request to end a session, before the test ends.
        lost: its answer with a session that it does not know.
        asked: the methods, in order.
        sessions: ids of the sessions that it knows.
    """

    answer: Callable[[dict[str, Any]], Answer | None] = lambda asked: result()
    tools: list[Any] = field(default_factory=lambda: [TOOL])
    page: Callable[[dict[str, Any]], Answer | None] | None = None
    next_cursor: str | None = None
    pong: Answer | None = field(default_factory=lambda: Answer({"result": {}}))
    has_moved: bool = False
    keeps_sessions: bool = False
    lost: Answer = field(default_factory=lambda: error(-32001, "Session not found", 404))
    asked: list[str] = field(default_factory=list)
    sessions: set[str] = field(default_factory=set)
    ending: threading.Event = field(default_factory=threading.Event)
    url: str = ""

    def answer_to(self, asked: dict[str, Any], session: str) -> Answer | None:
        method = asked.get("method", "")
        self.asked.append(method)
        if method == "server/discover":
            return error(-32601, "no")
        if method == "initialize":
            capabilities = {"tools": {"listChanged": True}}
            return Answer(
                {
                    "result": {
                        "protocolVersion": "2025-06-18",
                        "capabilities": capabilities,
                        "serverInfo": {"name": "odd", "version": "1"},
                    }
                }
            )
        if "id" not in asked:
            return Answer(status=202)
        if session not in self.sessions:
            return self.lost
        if method == "tools/list" and self.page is not None:
            return self.page(asked)
        if method == "tools/list":
            more = {} if self.next_cursor is None else {"nextCursor": self.next_cursor}
            return Answer({"result": {"tools": self.tools, **more}})
        if method == "ping":
            return self.pong
        return self.answer(asked)


@contextmanager
def odd_service() -> Iterator[OddService]:
    """Run the service, and end it afterwards."""
    service = OddService()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
            if service.has_moved and self.path == "/mcp":
                self.send_response(307)
                self.send_header("Location", "/mcp/")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            answer = service.answer_to(asked, self.headers.get("Mcp-Session-Id", ""))
            if answer is None:
                service.ending.wait()
                self.close_connection = True
                return
            body = answer.body
            if body is not None and not isinstance(body, str):
                body = json.dumps({"jsonrpc": "2.0", "id": asked.get("id"), **body})
            raw = (body or "").encode()
            if answer.breaks and not raw:
                self.close_connection = True
                return
            self.send_response(answer.status)
            if asked.get("method") == "initialize":
                session = f"s{service.asked.count('initialize')}"
                service.sessions.add(session)
                self.send_header("Mcp-Session-Id", session)
            for name, value in {**answer.headers, "Content-Type": answer.kind}.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw[:-1] if answer.breaks else raw)

        def do_GET(self) -> None:
            self._refuse()

        def do_DELETE(self) -> None:
            if service.keeps_sessions:
                service.ending.wait()
                self.close_connection = True
            else:
                self._refuse()

        def _refuse(self) -> None:
            self.send_response(405)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Do nothing: no log."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    service.url = f"http://127.0.0.1:{server.server_port}/mcp"
    try:
        yield service
    finally:
        service.ending.set()
        server.shutdown()
        server.server_close()
        thread.join()
