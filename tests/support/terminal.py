"""A separate terminal for a command: control characters become signals to the whole foreground
process group, as in life.
"""

from __future__ import annotations

import fcntl
import os
import pty
import subprocess
import termios
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.support.os_processes import end_all

CONTROL_C = b"\x03"


class Terminal:
    """The terminal, and the command in it. ``text`` is its output so far."""

    def __init__(self, command: list[str], directory: Path, environment: Mapping[str, str]) -> None:
        self._screen, line = pty.openpty()
        self.process = subprocess.Popen(
            command,
            cwd=directory,
            env=environment,
            stdin=line,
            stdout=line,
            stderr=line,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509  nothing but this one call
        )
        os.close(line)
        self.text = ""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def type(self, keys: bytes) -> None:
        os.write(self._screen, keys)

    def close(self) -> None:
        """Send SIGKILL to the whole group, if alive."""
        end_all(self.process)
        self._reader.join(10)
        os.close(self._screen)

    def _read(self) -> None:
        with suppress(OSError):  # EIO: the other end is closed
            while read := os.read(self._screen, 4096):
                self.text += read.decode(errors="replace")


@contextmanager
def terminal(
    command: list[str], directory: Path, environment: Mapping[str, str]
) -> Iterator[Terminal]:
    """Start ``command`` in a terminal; kill it afterwards."""
    made = Terminal(command, directory, environment)
    try:
        yield made
    finally:
        made.close()
