"""An MCP server that answers a call without end: `python -m` it for stdio, `endless_service()` for
HTTP.

`sent` counts its bytes: a reader without a bound takes all.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PIECE = "a" * (1 << 20)
#: Pieces after which even this server stops.
PIECES = 1024
HEAD = '{"jsonrpc": "2.0", "id": %s, "result": {"content": [{"type": "text", "text": "'


def result_of(asked: dict[str, Any]) -> dict[str, Any] | None:
    """Return its answer to everything but a call."""
    return {
        "initialize": {
            "protocolVersion": (asked.get("params") or {}).get("protocolVersion"),
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "endless", "version": "1"},
        },
        "tools/list": {
            "tools": [{"name": "big", "description": "", "inputSchema": {"type": "object"}}]
        },
    }.get(str(asked.get("method")))


def answer(asked: dict[str, Any]) -> str:
    result = result_of(asked)
    body = {"result": result} if result else {"error": {"code": -32601, "message": "no"}}
    return json.dumps({"jsonrpc": "2.0", "id": asked["id"], **body})


@contextmanager
def endless_service(
    content_type: str = "application/json", **headers: str
) -> Iterator[tuple[str, list[int]]]:
    """Start the same as a service; yield its URL, and the bytes of each piece it sent."""
    sent: list[int] = []

    class Endless(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if "id" not in asked:
                return self._whole(202, b"")
            if asked["method"] != "tools/call":
                return self._whole(200, answer(asked).encode())
            self.send_response(200)
            self.send_header("Content-Type", content_type)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            try:
                self._chunk(
                    ("data: " if "stream" in content_type else "") + HEAD % json.dumps(asked["id"])
                )
                while len(sent) < PIECES:
                    self._chunk(PIECE)
                    sent.append(len(PIECE))
            except OSError:
                pass  # it is not read any more
            self.close_connection = True
            return None

        def do_GET(self) -> None:
            self._whole(405, b"")

        def do_DELETE(self) -> None:
            self._whole(200, b"")

        def _whole(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _chunk(self, text: str) -> None:
            self.wfile.write(f"{len(text):x}\r\n".encode() + text.encode() + b"\r\n")

        def log_message(self, *_: Any) -> None:
            """Do nothing: no log."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Endless)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/mcp", sent
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


if __name__ == "__main__":
    for line in sys.stdin:
        request = json.loads(line)
        if request.get("method") == "tools/call":
            sys.stdout.write(HEAD % json.dumps(request["id"]))
            for _ in range(PIECES):
                sys.stdout.write(PIECE)
        elif "id" in request:
            print(answer(request), flush=True)
