"""A client of event streams on a bare socket.

It is cheap enough for hundreds at once, and a test can cut the connection at any byte.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from urllib.parse import urlsplit


@dataclass
class Watched:
    """The events of one connection.

    Attributes:
        status: of the response. ids: of the events, in order. types: likewise.
        end: the data of ``event: end``, as it came; None where the stream ended without.
    """

    status: int = 0
    ids: list[str] = field(default_factory=list)
    types: list[str] = field(default_factory=list)
    end: str | None = None


async def connect(
    url: str, run_id: str, after: str | None = None, query: str = ""
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Open a connection, and request the events of a run on it."""
    port = urlsplit(url).port
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**24)
    last = f"Last-Event-ID: {after}\r\n" if after else ""
    writer.write(
        f"GET /api/v1/runs/{run_id}/events{query} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        f"Accept: text/event-stream\r\nConnection: close\r\n{last}\r\n".encode()
    )
    return reader, writer


async def listen(reader: asyncio.StreamReader, seen: Watched, most: int | None = None) -> Watched:
    """Read until the stream ends, or this number of whole events has come."""
    kind, seen.status = b"", seen.status or int((await reader.readline()).split()[1])
    # Each event is sent in one piece, so no line of one is broken by the frame of a chunk.
    while line := await reader.readline():
        name, _, value = line.rstrip(b"\r\n").partition(b": ")
        if name == b"event":
            kind = value
        elif name == b"data" and kind == b"end":
            seen.end = value.decode()
            return seen
        elif name == b"id":
            seen.ids.append(value.decode())
            seen.types.append(kind.decode())
            if len(seen.ids) == most:
                return seen
    return seen


async def watch(
    url: str, run_id: str, after: str | None = None, query: str = "", most: int | None = None
) -> Watched:
    """Watch over one connection, and hang up."""
    reader, writer = await connect(url, run_id, after, query)
    try:
        return await listen(reader, Watched(), most)
    finally:
        writer.transport.abort()
