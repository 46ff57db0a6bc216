"""The pattern of run ids, the names of worker processes (``HOST:PID``), and random ids.

The store holds a worker's name in the worker's claims and in the events of lost workers. Each round
needs several random ids.

Random ids have to be distinct, but not secret. The operating system's random bytes would cost a
system call each, during which the thread releases the interpreter and then waits to get it back.
"""

from __future__ import annotations

import os
import random
import re
import socket
from functools import cache

RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:@-]{0,199}")

#: Seeded by the operating system. The generator of the random module itself could be seeded by
#: other code.
_source = random.Random()
# A forked child would otherwise make its parent's ids.
os.register_at_fork(after_in_child=_source.seed)


def new_digits(count: int) -> str:
    """Return ``count`` random hexadecimal digits. ``count`` must be even."""
    return _source.randbytes(count // 2).hex()


def process_name(pid: int | None = None) -> str:
    """Return the name ``HOST:PID`` of a process on this machine.

    If ``pid`` is None, it is the name of this process.
    """
    return f"{_host()}:{os.getpid() if pid is None else pid}"


_host = cache(socket.gethostname)
