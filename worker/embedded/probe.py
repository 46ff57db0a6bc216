"""Ask a server on a Unix socket who it is, in raw RESP: only `worker.store` knows the Redis client."""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO


@dataclass(frozen=True)
class Answer:
    """What a server said.

    Attributes:
        ready: it serves commands (+PONG).
        loading: it is still reading its data.
        pid: its own word for its process id; None when it is too busy to tell.
    """

    ready: bool
    loading: bool
    pid: int | None


def probe(path: Path, timeout: float = 1.0) -> Answer | None:
    """Ask the server that listens at `path`.

    Args:
        path: its Unix socket.
        timeout: seconds to wait for each part of the answer.

    Returns:
        Its answer; None when nobody listens there or nobody answers in time.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(timeout)
        try:
            connection.connect(str(path))
            connection.sendall(b"PING\r\nINFO server\r\n")
            with connection.makefile("rb") as replies:
                pong, information = _reply(replies), _reply(replies)
        except (OSError, ValueError):  # ValueError: whatever listens there does not speak RESP
            return None
    if not pong:
        return None
    pid = re.search(rb"^process_id:(\d+)", information, re.MULTILINE)
    return Answer(ready=pong == b"+PONG", loading=pong.startswith(b"-LOADING"), pid=int(pid[1]) if pid else None)


def _reply(replies: BinaryIO) -> bytes:
    """One reply: a line, or the body of a bulk string."""
    line = replies.readline().rstrip(b"\r\n")
    if not line.startswith(b"$"):
        return line
    return replies.read(int(line[1:]) + 2)
