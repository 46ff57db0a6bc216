"""Processes of a benchmark: started in a group of their own, killed afterwards; and the CPU time of a process with all it started."""

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
#: Of our own environment: settings for something else, and what would make each process compile every module anew.
UNWANTED = ("HOLDFAST_", "CELERY_", "BENCH_", "PYTHONDONTWRITEBYTECODE")


@contextmanager
def process(command: Sequence[str | Path], user: str | None = None, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process in a group of its own, killed with all of its group afterwards.

    Args:
        user: whom it runs as; None for ourselves.
        environment: beside what is there already, less what is not meant for it.

    Raises:
        RuntimeError: what is measured inside failed, and the process has ended by itself; with the last that it wrote.
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
                raise RuntimeError(f"{command[0]} ended with {started.returncode}; it said: {tail}") from error
            raise
        finally:
            _kill(started)


def python(*arguments: str) -> list[str]:
    """This Python with these arguments."""
    return [sys.executable, *arguments]


def until(holds: Callable[[], bool], what: str, seconds: float = 60.0, every: float = 0.005) -> None:
    """Wait until ``holds()``; TimeoutError with ``what`` when it does not in time."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(f"waited {seconds:g} s in vain for {what}")
        time.sleep(every)


def family(pids: Iterable[int]) -> set[int]:
    """The processes and all that descend from them; by parents, since some (PostgreSQL's) make sessions of their own."""
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
    """CPU time that the processes and all that descend from them have used, those that ended included; None without /proc.

    It is told in hundredths of a second.
    """
    if not PROC.is_dir():
        return None
    ours = family(pids)
    ticks = sum(sum(map(int, fields[11:15])) for pid, fields in _stats() if pid in ours)  # utime, stime, cutime, cstime
    return ticks / os.sysconf("SC_CLK_TCK")


def memory(pid: int) -> Mapping[str, int]:
    """Bytes by name, as /proc/PID/smaps_rollup has them: Rss, Pss, Private_Dirty, ..."""
    lines = (PROC / str(pid) / "smaps_rollup").read_text().splitlines()[1:]
    return {name.rstrip(":"): 1024 * int(kilobytes) for name, kilobytes, *_ in map(str.split, lines)}


def _stats() -> Iterator[tuple[int, list[str]]]:
    """Each process, and the fields of its stat behind the name, state first."""
    for place in PROC.glob("[0-9]*"):
        try:
            text = (place / "stat").read_text()
        except OSError:  # it has just ended
            continue
        yield int(place.name), text.rpartition(")")[2].split()


def _kill(started: subprocess.Popen[bytes]) -> None:
    """SIGKILL to its group, which no other process can have joined. One that has ended may have left children in it."""
    with suppress(ProcessLookupError):
        os.killpg(started.pid, signal.SIGKILL)
    started.wait()
