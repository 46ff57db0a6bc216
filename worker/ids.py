"""Names of worker processes (``HOST:PID``), and random ids.

Claims and loss events have the names. The ids are needed several times per round.

The ids have to be distinct, not secret. The operating system's random bytes would cost a system
call each, during which the thread releases the interpreter and then waits to get it back.
"""

from __future__ import annotations

import os
import random
import socket
from functools import cache

#: Seeded by the operating system. The generator of the random module itself could be seeded by
#: other code.
_source = random.Random()
_process: list[int] = []


def _begin() -> None:
    # A forked child would otherwise make its parent's ids.
    _source.seed()
    _process[:] = [os.getpid()]


_begin()
os.register_at_fork(after_in_child=_begin)


def process_id() -> int:
    """Return the id of this process, for which ``os.getpid`` would ask the system each time."""
    return _process[0]


def new_digits(count: int) -> str:
    """Return ``count`` random hexadecimal digits; ``count`` must be even."""
    return _source.randbytes(count // 2).hex()


def process_name(pid: int | None = None) -> str:
    """Return the name ``HOST:PID`` of a process on this machine; None means this process."""
    return f"{_host()}:{process_id() if pid is None else pid}"


_host = cache(socket.gethostname)
