"""A receiver of webhooks, in a thread of this process: it verifies each with the library of the
Standard Webhooks.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from standardwebhooks.webhooks import Webhook

#: A secret of tests, as `echo whsec_$(openssl rand -base64 32)` makes one.
SECRET = "whsec_" + base64.b64encode(b"a secret of 32 bytes for tests..").decode()


@dataclass
class Receiver:
    """The received webhooks, and the replies to them."""

    secret: str = SECRET
    #: The status of each reply, in their order; the last one is kept.
    replies: list[int] = field(default_factory=lambda: [204])
    headers: dict[str, str] = field(default_factory=dict)
    #: Bodies of verified webhooks, with the id of each.
    accepted: list[tuple[str, Any]] = field(default_factory=list)
    #: The ids of all, accepted or not.
    ids: list[str] = field(default_factory=list)
    forged: int = 0
    port: int = 0
    #: How long each reply takes.
    seconds: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}/hook"

    def receive(self, headers: dict[str, str], body: bytes) -> int:
        """Verify a webhook; return the status to reply."""
        try:
            data = Webhook(self.secret).verify(body, headers)
        except Exception:
            with self.lock:
                self.forged += 1
            return 401
        threading.Event().wait(self.seconds)
        with self.lock:
            status = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
            self.ids.append(headers["webhook-id"])
            if status < 300:
                self.accepted.append((headers["webhook-id"], data))
        return status

    def of_type(self, kind: str) -> list[Any]:
        """Return the data of accepted webhooks of this type."""
        return [data["data"] for _, data in self.accepted if data["type"] == kind]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


@contextmanager
def listening(receiver: Receiver) -> Iterator[Receiver]:
    """Run the receiver on its port; on any at first, afterwards on the same."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            named = {name.lower(): text for name, text in self.headers.items()}
            self.send_response(receiver.receive(named, body))
            for name, text in receiver.headers.items():
                self.send_header(name, text)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = _Server(("127.0.0.1", receiver.port), Handler)
    receiver.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), name="webhook-receiver")
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


def rules(receiver: Receiver, **more: Any) -> str:
    """Return the setting ``notify`` with one rule that sends to the receiver, as its variable."""
    rule = {"on": ["ended"], "webhook": receiver.url, "secret": "env:OPS_WEBHOOK_SECRET", **more}
    return json.dumps({"ops": rule})
