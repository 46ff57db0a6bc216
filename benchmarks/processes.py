"""Processes of a benchmark, and their CPU time.

Each process is started in its own group and killed afterwards. Its CPU time includes all processes
that it started.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROC = Path("/proc")
#: Variables that are removed: settings for other programs, and the variable that would make each
#: process compile every module again.
UNWANTED = ("PERDURE_", "CELERY_", "BENCH_", "PYTHONDONTWRITEBYTECODE")


@contextmanager
def process(
    command: Sequence[str | Path], user: str | None = None, **environment: str
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process in its own group. Kill the whole group afterwards.

    Args:
        user: The user that it runs as; None for the present one.
        environment: Added to the present environment, from which unsuitable variables are removed.

    Raises:
        RuntimeError: The measurement failed, and the process has ended by itself. The error has the
            last lines that it wrote.
    """
    bare = {name: value for name, value in os.environ.items() if not name.startswith(UNWANTED)}
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    with tempfile.TemporaryFile() as said:
        started = subprocess.Popen(
            [str(part) for part in command],
            cwd=ROOT,
            env={**bare, "PYTHONPATH": paths, **environment},
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            start_new_session=True,
            user=user,
        )
        try:
            yield started
        except Exception as error:
            if started.poll() is not None:
                said.seek(0)
                tail = said.read()[-2000:].decode(errors="replace")
                raise RuntimeError(
                    f"{command[0]} ended with {started.returncode}; it said: {tail}"
                ) from error
            raise
        finally:
            _kill(started)


def python(*arguments: str) -> list[str]:
    """Return the command of this Python with these arguments."""
    return [sys.executable, *arguments]


def until(
    holds: Callable[[], bool], what: str, seconds: float = 60.0, every: float = 0.005
) -> None:
    """Wait until ``holds()`` is true. Raise TimeoutError with ``what`` if it takes too long."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(f"waited {seconds:g} s in vain for {what}")
        time.sleep(every)


def family(pids: Iterable[int]) -> set[int]:
    """Return the processes and all that descend from them.

    They are found by their parents, because some (PostgreSQL's) make sessions of their own.
    """
    children: dict[int, list[int]] = {}
    for pid, fields in _stats():
        children.setdefault(int(fields[1]), []).append(pid)
    found: set[int] = set()
    waiting = list(pids)
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found.add(pid)
            waiting += children.get(pid, [])
    return found


def cpu_seconds(pids: Iterable[int]) -> float | None:
    """Return the CPU time of processes and their descendants.

    Ended processes are included. The resolution is a hundredth of a second.

    Returns:
        None without /proc.
    """
    if not PROC.is_dir():
        return None
    ours = family(pids)
    ticks = sum(
        sum(map(int, fields[11:15])) for pid, fields in _stats() if pid in ours
    )  # utime, stime, cutime, cstime
    return ticks / os.sysconf("SC_CLK_TCK")


def memory(pid: int) -> Mapping[str, int]:
    """Return bytes by name, as in /proc/PID/smaps_rollup: Rss, Pss, Private_Dirty, ..."""
    lines = (PROC / str(pid) / "smaps_rollup").read_text().splitlines()[1:]
    return {
        name.rstrip(":"): 1024 * int(kilobytes) for name, kilobytes, *_ in map(str.split, lines)
    }


def _stats() -> Iterator[tuple[int, list[str]]]:
    """Yield each process, with fields of its stat.

    They are the fields after the name, beginning with the state.
    """
    for place in PROC.glob("[0-9]*"):
        try:
            text = (place / "stat").read_text()
        except OSError:  # it has just ended
            continue
        yield int(place.name), text.rpartition(")")[2].split()


def _kill(started: subprocess.Popen[bytes]) -> None:
    """Kill the process's group.

    No other process can have joined it. A process that has ended may have left children in it.
    """
    with suppress(ProcessLookupError):
        os.killpg(started.pid, signal.SIGKILL)
    started.wait()
