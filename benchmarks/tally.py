"""Tally: how workers of the other sides tell that they are ready, and that a run has ended: one datagram, the cheapest word there is.

Holdfast's own runs are asked for in its store, which knows an end only once it is written.
"""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

#: Names the socket to a worker.
VARIABLE = "BENCH_TALLY"


class Tally:
    """Counts what it is told.

    Attributes:
        ready: workers that said so.
        ended: runs that have ended.
        rounds: of these runs, as each counted them itself.
    """

    def __init__(self, path: Path) -> None:
        self.ready = self.ended = self.rounds = 0
        self.path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        threading.Thread(target=self._listen, name="tally", daemon=True).start()

    def close(self) -> None:
        """Hear no more."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
            other.sendto(b"close", str(self.path))

    def _listen(self) -> None:
        with self._socket:
            while (said := self._socket.recv(64)) != b"close":
                if said == b"ready":
                    self.ready += 1
                else:
                    self.ended, self.rounds = self.ended + 1, self.rounds + int(said)


@contextmanager
def tally() -> Iterator[Tally]:
    """One that listens at a socket of its own."""
    directory = Path(tempfile.mkdtemp(prefix="hf-"))
    listening = Tally(directory / "tally")
    try:
        yield listening
    finally:
        listening.close()
        shutil.rmtree(directory)


def tell_ready() -> None:
    """Said by a worker."""
    _socket().send(b"ready")


def tell_end(rounds: int) -> None:
    """Said by a worker at the end of a run that had so many rounds."""
    _socket().send(b"%d" % rounds)


@cache
def _socket() -> socket.socket:
    speaking = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    speaking.connect(os.environ[VARIABLE])
    return speaking
