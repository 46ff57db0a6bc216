"""A command that is watched while it runs: it ends, or its time is over, or nobody wants it any more."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector

from flows.errors import RoundStopped
from flows.library.git.processes import kill_marked

#: How much of the end of a command's output is kept, in bytes.
TAIL_BYTES = 2048
#: How often the cancel token and the clock are looked at, in seconds.
_SLICE = 0.05


@dataclass(frozen=True, slots=True)
class Ending:
    """How a command ended: ``exit`` as Popen's returncode (negative: a signal), None when its time was over."""

    exit: int | None
    seconds: float
    tail: str


def run_watched(
    command: Sequence[str],
    directory: Path,
    environment: Mapping[str, str],
    *,
    mark: str,
    timeout: float | None,
    cancelled: threading.Event,
) -> Ending:
    """Run ``command`` in a session of its own; when this returns or raises, no process of it is left.

    Args:
        mark: name of a variable put into its environment, by which its processes are known after a crash too.
        timeout: seconds, then it is killed; None for no limit.

    Raises:
        RoundStopped: ``cancelled`` was set; the command was killed.
    """
    begin = time.monotonic()
    process = subprocess.Popen(
        list(command),
        cwd=directory,
        env={**environment, mark: "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    assert process.stdout is not None  # asked for above
    try:
        tail = _Tail(process.stdout.fileno())
        exit_code = None
        while exit_code is None:
            if cancelled.is_set():
                raise RoundStopped(f"the round was cancelled, so its command was killed: {' '.join(command)[:200]}")
            if timeout is not None and time.monotonic() - begin >= timeout:
                break
            exit_code = tail.read_while_running(process)
        seconds = round(time.monotonic() - begin, 3)
    finally:
        # Also after a proper end: what it started in the background must not outlive it. A session's number is
        # not given away while one of its processes lives, so no other can be hit.
        kill_marked(mark, session=process.pid)
        process.wait()
        text = tail.rest()
        process.stdout.close()
    return Ending(exit_code, seconds, text)


class _Tail:
    """The last bytes that came out of a pipe; a command that writes without end costs no more than one that does not."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe
        self._last = b""
        self._open = True
        os.set_blocking(pipe, False)

    def read_while_running(self, process: subprocess.Popen[bytes]) -> int | None:
        """Read for one slice of time at most; the exit code, once there is one."""
        if self._open:
            with DefaultSelector() as selector:
                selector.register(self._pipe, EVENT_READ)
                if selector.select(_SLICE):
                    self._read()
            return process.poll()
        try:
            return process.wait(_SLICE)
        except subprocess.TimeoutExpired:
            return None

    def rest(self) -> str:
        """What was written last, once nobody writes any more."""
        while self._open and self._read():
            pass
        return self._last.decode("utf-8", "replace")

    def _read(self) -> bool:
        try:
            data = os.read(self._pipe, 65536)
        except BlockingIOError:
            return False
        self._open = bool(data)
        self._last = (self._last + data)[-TAIL_BYTES:]
        return self._open
