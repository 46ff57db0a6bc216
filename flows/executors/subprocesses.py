"""Subprocesses that are watched until they end.

A subprocess ends by itself, is killed at its time limit, or is killed when its round is cancelled.
Then every process that it has left behind is killed, including those that moved to a process group
of their own.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector

from perdure.flows.core.errors import RoundStopped

_PROC = Path("/proc")
#: Maximum number of passes. A process may fork while its siblings are killed, so the search is
#: repeated, but not for ever.
_PASSES = 20


def kill_marked(mark: str, session: int | None = None) -> None:
    """Kill (SIGKILL) all processes that belong to a session or have a mark.

    By its session, a process is found even if it has cleared its environment. By the mark, it is
    found even if it began a session of its own or its parent died. On systems without /proc, only
    the process group of the session's leader is killed.

    Args:
        mark: the name of an environment variable that the processes have.
        session: the id of the session. None if only the mark is known.
    """
    if session is not None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(session, signal.SIGKILL)
    for _ in range(_PASSES):
        processes = list(_alive(mark.encode() + b"=", session))
        for process in processes:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)
        if not processes:
            return


def _alive(variable: bytes, session: int | None) -> Iterator[int]:
    """Yield the ids of other live processes that belong to ``session`` or have ``variable``.

    Args:
        variable: the name of an environment variable, with ``=`` at its end.
        session: the id of a session. None if only the variable counts.
    """
    for entry in _PROC.iterdir() if _PROC.is_dir() else ():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            # Format: "pid (name) state parent group session ...". The name may contain brackets.
            state, _, _, its_session = (
                entry.joinpath("stat").read_bytes().rpartition(b")")[2].split()[:4]
            )
            if state in b"ZX":
                continue
            if int(its_session) == session or _has(entry, variable):
                yield int(entry.name)
        except (OSError, ValueError):
            continue  # the process has ended, or belongs to another user


def _has(entry: Path, variable: bytes) -> bool:
    return any(
        item.startswith(variable) for item in entry.joinpath("environ").read_bytes().split(b"\0")
    )


#: Default number of bytes kept of the end of a command's output.
TAIL_BYTES = 2048
#: Seconds between two checks of the cancel token and the clock.
_SLICE = 0.05


@dataclass(frozen=True, slots=True)
class ProcessEnding:
    """The end of a command.

    Attributes:
        exit: The exit code as in ``Popen.returncode`` (negative for a signal). None if the command
            was killed at its time limit.
        seconds: How long it ran.
        head, tail: The beginning and the end of its output.
        left_out: Number of bytes of output between them that were dropped.
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
    data: bytes | None = None,
) -> ProcessEnding:
    """Run a program in its own session until it ends. Return how it ended.

    At the time limit, the program is killed, too. When this function returns or raises, no process
    of the program is left.

    Args:
        command: The program and its arguments.
        directory: The directory in which the program runs.
        environment: All environment variables of the program, except ``mark``.
        mark: Name of an environment variable that is added. It identifies the program's processes,
            even after a crash of the worker.
        timeout: Seconds after which the program is killed. None for no limit.
        cancelled: The cancel token of the round.
        head_bytes, tail_bytes: How much of the beginning and of the end of the output is kept.
        data: The bytes of the program's standard input. None for nothing.

    Raises:
        RoundStopped: ``cancelled`` was set; the program was killed.
        OSError: The program could not be started.
    """
    begin = time.monotonic()
    # A file and not a pipe: a command that does not read must not block the round.
    with contextlib.nullcontext() if data is None else tempfile.TemporaryFile() as file:
        if data is not None and file is not None:
            file.write(data)
            file.seek(0)
        process = subprocess.Popen(
            list(command),
            cwd=directory,
            env={**environment, mark: "1"},
            stdin=subprocess.DEVNULL if file is None else file,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    assert process.stdout is not None  # because stdout=PIPE
    output = _Output(process.stdout.fileno(), head_bytes, tail_bytes)
    try:
        os.set_blocking(process.stdout.fileno(), False)
        exit_code = None
        while exit_code is None:
            if cancelled.is_set():
                raise RoundStopped(
                    f"the round was cancelled, so its command was killed: {' '.join(command)[:200]}"
                )
            if timeout is not None and time.monotonic() - begin >= timeout:
                break
            exit_code = output.read_while_running(process)
        seconds = round(time.monotonic() - begin, 3)
    finally:
        # This also runs after a normal end, since background processes must not outlive the
        # command. The session's id is not reused while one of its processes lives, so no unrelated
        # process can be hit.
        kill_marked(mark, session=process.pid)
        process.wait()
        output.finish()
        process.stdout.close()
    return ProcessEnding(
        exit_code,
        seconds,
        output.tail.decode("utf-8", "replace"),
        output.head.decode("utf-8", "replace"),
        output.left_out,
    )


class _Output:
    """The first and last bytes of a pipe.

    The bytes between them are only counted, so that the memory is bounded.
    """

    def __init__(self, pipe: int, head_bytes: int, tail_bytes: int) -> None:
        self.head, self.tail, self.left_out = b"", b"", 0
        self._room, self._tail_bytes = head_bytes, tail_bytes
        self._pipe = pipe
        self._open = True

    def read_while_running(self, process: subprocess.Popen[bytes]) -> int | None:
        """Read a subprocess's output for at most ``_SLICE`` seconds.

        Returns:
            The exit code if the process has ended, else None.
        """
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
        """Read the rest of a subprocess's output, after all its writers have ended."""
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
        rest = self.tail + data[room:]
        self.left_out += max(0, len(rest) - self._tail_bytes)
        self.tail = rest[-self._tail_bytes :]
        return self._open
