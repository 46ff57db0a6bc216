"""Tally: how workers tell that they are ready, that a run has ended, and, where latency is measured, that a round begins: one datagram
each, the cheapest word there is.

The ends of Holdfast's own runs are asked for in its store, which knows of an end only once it is written.
"""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

#: Names the socket to a worker.
VARIABLE = "BENCH_TALLY"
#: Set where each round is to tell when it began.
STAMPING = "BENCH_STAMPING"


class Tally:
    """Counts what it is told.

    Attributes:
        ready: workers that said so.
        ended: runs that have ended.
        rounds: of these runs, as each counted them itself.
        began: when rounds began, in order, in seconds of ``time.monotonic``, which all processes share.
        environment: what makes a worker tell.
    """

    def __init__(self, path: Path, stamping: bool) -> None:
        self.ready = self.ended = self.rounds = 0
        self.began: list[float] = []
        self.path = path
        self.environment = {VARIABLE: str(path), **({STAMPING: "1"} if stamping else {})}
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
                elif said.startswith(b"began "):
                    self.began.append(float(said[6:]))
                else:
                    self.ended, self.rounds = self.ended + 1, self.rounds + int(said)


@contextmanager
def tally(stamping: bool = False) -> Iterator[Tally]:
    """One that listens at a socket of its own; with ``stamping`` to the beginning of each round, too."""
    directory = Path(tempfile.mkdtemp(prefix="hf-"))
    listening = Tally(directory / "tally", stamping)
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


def stamp() -> None:
    """Said by a round as the first thing it does; nothing where latency is not measured."""
    if _stamping():
        _socket().send(b"began %.9f" % time.monotonic())


@cache
def _stamping() -> bool:
    return STAMPING in os.environ


@cache
def _socket() -> socket.socket:
    speaking = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    speaking.connect(os.environ[VARIABLE])
    return speaking
