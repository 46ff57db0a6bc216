"""Processes of the operating system: the player of a run, children, and their ends."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from perdure import Client
from tests.support.redis_servers import until


def process_of(client: Client, run_id: str) -> int | None:
    """Return the process that plays the run's round; None if there is none."""
    claim = (client._store.reads.fields(run_id) or {}).get("claim_id")
    return None if claim is None else int(claim.rpartition(".")[0].rpartition(":")[2])


def kill_process_of(client: Client, run_id: str) -> bool:
    """Kill that process with SIGKILL; return whether it existed."""
    pid = process_of(client, run_id)
    with suppress(ProcessLookupError):
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
            return True
    return False


def peak() -> int:
    """Return the bytes of memory that this process has had at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def ended(pid: int) -> bool:
    """Return whether the process is gone, or a zombie that is not reaped yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def children(pid: int) -> list[int]:
    """Return the living children of a process."""
    with suppress(OSError):
        return [
            int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        ]
    return []


def descendants(pid: int) -> list[int]:
    """Return its living children, theirs, and so on, also those in other sessions."""
    own = children(pid)
    return own + [each for child in own for each in descendants(child)]


def open_files(pid: int) -> list[str]:
    """Return the targets of a process's descriptors, such as a path or ``socket:[4711]``."""
    found = []
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            found.append(os.readlink(descriptor))
    return found


def end_all(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> None:
    """Send SIGKILL to its group, also if its leader has ended, and to all of ours below it, and
    wait for them.

    `up` and `demo` start workers in sessions of their own, and those finish their rounds when `up`
    dies. They would write to the server after the test, and the next test would be blamed.
    """
    below = [] if process.poll() is not None else descendants(process.pid)
    ours = [each for each in below if _is_ours(each)]
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for each in ours:
        with suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)
    process.wait(10)
    until(lambda: all(map(ended, ours)), f"the end of {ours}", 10)


def _is_ours(pid: int) -> bool:
    """Return whether it is a command of Perdure or of Celery, and no server."""
    with suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        return any(word in (b"perdure", b"celery") for word in words) or any(
            word.endswith((b"/perdure", b"/celery")) for word in words
        )
    return False


def alive(process: int) -> bool:
    """Return whether it runs; a zombie that is not reaped yet does not."""
    try:
        return Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()[0] not in (
            b"Z",
            b"X",
        )
    except FileNotFoundError:
        return False


def wait_for(condition: Callable[[], bool]) -> None:
    """Poll for at most 20 seconds."""
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end, "waited 20 s"
        threading.Event().wait(0.01)


def numbers(file: Path, count: int) -> list[int]:
    """Return the ``count`` process ids that a command wrote into ``file``, once all are there."""
    wait_for(lambda: file.exists() and len(file.read_text().split()) == count)
    return [int(word) for word in file.read_text().split()]
