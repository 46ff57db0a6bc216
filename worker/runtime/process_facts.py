"""Facts of this worker process for its announcement: the version of Perdure, and its memory."""

from __future__ import annotations

import os
from functools import cache
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from pathlib import Path

#: Run ids that a worker announces at most. With more slots, the page of a run tells its worker.
MOST_HELD = 50


@cache
def version() -> str:
    """Return the installed version of Perdure; '' if it runs from a source tree."""
    try:
        return installed_version("perdure")
    except PackageNotFoundError:
        return ""


def resident_bytes() -> int | None:
    """Return the bytes of memory that this process and its pool's processes have in use.

    Memory that they share counts for each of them.

    Returns:
        None on systems without ``/proc``.
    """
    try:
        return _resident(os.getpid()) + sum(map(_resident, _children(os.getpid())))
    except OSError:
        return None


def _children(pid: int) -> list[int]:
    """Return the child processes of a process; empty if the system does not tell them."""
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        return [int(each) for task in tasks for each in (task / "children").read_text().split()]
    except OSError:
        return []


def _resident(pid: int) -> int:
    """Return the resident bytes of a process; 0 if it has just ended."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (FileNotFoundError, ProcessLookupError):
        if pid == os.getpid():
            raise
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
