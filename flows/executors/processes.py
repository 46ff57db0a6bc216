"""Ending every process that a command left behind, also those that made a process group of their own."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

_PROC = Path("/proc")
#: A process may fork while its siblings are being killed; so look again, but not for ever.
_PASSES = 20


def kill_marked(mark: str, session: int | None = None) -> None:
    """Kill (SIGKILL) all processes of ``session``, and all whose environment holds the variable ``mark``.

    Sessions find what cleared its environment, the mark finds what began a session of its own, or lost its leader in a
    crash. Where the system has no /proc, only the process group of the session's leader is killed.
    """
    if session is not None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(session, signal.SIGKILL)
    for _ in range(_PASSES):
        found = list(_alive(mark.encode() + b"=", session))
        for process in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)
        if not found:
            return


def _alive(variable: bytes, session: int | None) -> Iterator[int]:
    for entry in _PROC.iterdir() if _PROC.is_dir() else ():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            # "pid (name) state parent group session ...", and the name may hold anything, brackets too
            state, _, _, its_session = entry.joinpath("stat").read_bytes().rpartition(b")")[2].split()[:4]
            if state in b"ZX":
                continue
            if int(its_session) == session or _has(entry, variable):
                yield int(entry.name)
        except (OSError, ValueError):
            continue  # gone meanwhile, or somebody else's


def _has(entry: Path, variable: bytes) -> bool:
    return any(item.startswith(variable) for item in entry.joinpath("environ").read_bytes().split(b"\0"))
