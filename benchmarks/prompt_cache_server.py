"""A server with Anthropic's protocol and prompt cache rules. Its model repeats a script.

It reads a prompt's blocks in order: tools, system, messages. A request marks blocks
(``cache_control``). The server looks for the longest prefix that it has stored, at a mark or at
most 20 blocks before a mark, and stores the prefixes that end at the marks.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

#: How far before a mark a stored prefix is looked for, in blocks.
LOOK_BACK = 20
#: A shorter prefix, in tokens, is not stored.
SHORTEST = 1_024
#: Bytes for each token.
BYTES_A_TOKEN = 4
OUTPUT_TOKENS = 60


@dataclass(frozen=True)
class Counted:
    """The tokens of one prompt: at full price, read from the cache, and written to it."""

    full: int
    read: int
    written: int


@dataclass
class PromptCache:
    """The stored prefixes of a provider.

    Attributes:
        counted: The tokens of each request, in order.
    """

    stored: set[str] = field(default_factory=set)
    counted: list[Counted] = field(default_factory=list)

    def count(self, body: Mapping[str, Any]) -> Counted:
        """Count a prompt's tokens, and store its prefixes."""
        prefixes: list[tuple[str, int]] = []
        marks: list[int] = []
        digest, tokens = hashlib.sha256(), 0
        for block in _blocks(body):
            plain = {name: value for name, value in block.items() if name != "cache_control"}
            text = json.dumps(plain, sort_keys=True).encode()
            digest.update(text)
            tokens += len(text) // BYTES_A_TOKEN
            if "cache_control" in block:
                marks.append(len(prefixes))
            prefixes.append((digest.hexdigest(), tokens))
        if "cache_control" in body:
            marks.append(len(prefixes) - 1)
        places = {place for mark in marks for place in range(max(0, mark - LOOK_BACK), mark + 1)}
        found = [prefixes[place][1] for place in places if prefixes[place][0] in self.stored]
        read = max(found, default=0)
        ends = [prefixes[mark] for mark in marks if prefixes[mark][1] >= SHORTEST]
        self.stored.update(name for name, _ in ends)
        written = max(0, max((size for _, size in ends), default=0) - read)
        counted = Counted(tokens - read - written, read, written)
        self.counted.append(counted)
        return counted


def _blocks(body: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from body.get("tools", ())
    system = body.get("system", ())
    yield from [{"text": system}] if isinstance(system, str) else system
    for message in body["messages"]:
        content = message["content"]
        parts = [{"text": content}] if isinstance(content, str) else content
        yield from ({"role": message["role"], **part} for part in parts)


@contextmanager
def serving(calls: Sequence[tuple[str, Mapping[str, Any]]]) -> Iterator[tuple[str, PromptCache]]:
    """Yield a running server's URL and cache.

    Args:
        calls: The tool and the arguments of each reply, in order. The last is repeated.
    """
    cache = PromptCache()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Write no log."""

        def do_POST(self) -> None:
            """Reply to a request with the next call."""
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            counted = cache.count(body)
            number = len(cache.counted)
            name, arguments = calls[min(number, len(calls)) - 1]
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            for event in _events(body["model"], number, name, arguments, counted):
                self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", cache
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


def _events(
    model: str, number: int, name: str, arguments: Mapping[str, Any], counted: Counted
) -> Iterator[dict[str, Any]]:
    usage = {
        "input_tokens": counted.full,
        "cache_read_input_tokens": counted.read,
        "cache_creation_input_tokens": counted.written,
        "output_tokens": 1,
    }
    message = {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    yield {"type": "message_start", "message": message}
    call = {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": {}}
    yield {"type": "content_block_start", "index": 0, "content_block": call}
    part = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
    yield {"type": "content_block_delta", "index": 0, "delta": part}
    yield {"type": "content_block_stop", "index": 0}
    yield {
        "type": "message_delta",
        "delta": {"stop_reason": "tool_use", "stop_sequence": None},
        "usage": {"output_tokens": OUTPUT_TOKENS},
    }
    yield {"type": "message_stop"}
