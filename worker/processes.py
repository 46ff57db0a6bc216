"""Processes: what a process that plays rounds is called, in its claims and where it is mourned."""

from __future__ import annotations

import os
import socket
from functools import cache


def process_name(pid: int | None = None) -> str:
    """``HOST:PID`` of a process of this machine; None for this process."""
    return f"{_host()}:{os.getpid() if pid is None else pid}"


_host = cache(socket.gethostname)
