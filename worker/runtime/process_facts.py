"""Facts about a worker process that it announces with its heartbeats: version and memory."""

from __future__ import annotations

import os
from functools import cache
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from pathlib import Path

#: Maximum number of run ids that a worker announces. The page of any run names the run's worker.
MOST_HELD = 50


@cache
def version() -> str:
    """Return the installed version of Perdure. Empty if it runs from a source checkout."""
    try:
        return installed_version("perdure")
    except PackageNotFoundError:
        return ""


def resident_bytes() -> int | None:
    """Return the resident memory of this process and its child processes, in bytes.

    Memory that several processes share counts for each of them.

    Returns:
        None on systems without ``/proc``.
    """
    try:
        return _resident(os.getpid()) + sum(map(_resident, _children(os.getpid())))
    except OSError:
        return None


def _children(pid: int) -> list[int]:
    """Return the ids of a process's child processes. Empty if the system does not report them."""
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        return [int(each) for task in tasks for each in (task / "children").read_text().split()]
    except OSError:
        return []


def _resident(pid: int) -> int:
    """Return the resident memory of a process, in bytes.

    It is 0 if the process has ended.

    Raises:
        OSError: The system does not report the memory.
    """
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (FileNotFoundError, ProcessLookupError):
        if pid == os.getpid():
            raise
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
