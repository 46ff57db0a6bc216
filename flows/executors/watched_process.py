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
from flows.executors.processes import kill_marked

#: How much of the end of a command's output is kept, in bytes.
TAIL_BYTES = 2048
#: How often the cancel token and the clock are looked at, in seconds.
_SLICE = 0.05


@dataclass(frozen=True, slots=True)
class Ending:
    """How a command ended: ``exit`` as Popen's returncode (negative: a signal), None when its time was over.

    Of its output ``head`` and ``tail`` are kept; ``left_out`` bytes stood between them.
    """

    exit: int | None
    seconds: float
    tail: str
    head: str = ""
    left_out: int = 0


def run_watched(
    command: Sequence[str],
    directory: Path,
    environment: Mapping[str, str],
    *,
    mark: str,
    timeout: float | None,
    cancelled: threading.Event,
    head_bytes: int = 0,
    tail_bytes: int = TAIL_BYTES,
) -> Ending:
    """Run ``command`` in a session of its own; when this returns or raises, no process of it is left.

    Args:
        mark: name of a variable put into its environment, by which its processes are known after a crash too.
        timeout: seconds, then it is killed; None for no limit.
        head_bytes, tail_bytes: how much of the beginning and of the end of its output is kept.

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
        output = _Output(process.stdout.fileno(), head_bytes, tail_bytes)
        exit_code = None
        while exit_code is None:
            if cancelled.is_set():
                raise RoundStopped(f"the round was cancelled, so its command was killed: {' '.join(command)[:200]}")
            if timeout is not None and time.monotonic() - begin >= timeout:
                break
            exit_code = output.read_while_running(process)
        seconds = round(time.monotonic() - begin, 3)
    finally:
        # Also after a proper end: what it started in the background must not outlive it. A session's number is
        # not given away while one of its processes lives, so no other can be hit.
        kill_marked(mark, session=process.pid)
        process.wait()
        output.finish()
        process.stdout.close()
    return Ending(exit_code, seconds, output.tail.decode("utf-8", "replace"), output.head.decode("utf-8", "replace"), output.left_out)


class _Output:
    """The first and last bytes that came out of a pipe; a command that writes without end costs no more than one that does not."""

    def __init__(self, pipe: int, head_bytes: int, tail_bytes: int) -> None:
        self.head, self.tail, self.left_out = b"", b"", 0
        self._room, self._tail_bytes = head_bytes, tail_bytes
        self._pipe = pipe
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

    def finish(self) -> None:
        """Read what was written last, once nobody writes any more."""
        while self._open and self._read():
            pass

    def _read(self) -> bool:
        try:
            data = os.read(self._pipe, 65536)
        except BlockingIOError:
            return False
        self._open = bool(data)
        room = self._room - len(self.head)
        self.head += data[:room]
        kept = self.tail + data[room:]
        self.left_out += max(0, len(kept) - self._tail_bytes)
        self.tail = kept[-self._tail_bytes :]
        return self._open
