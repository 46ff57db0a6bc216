"""Tally: how workers report that they are ready, that a run has ended, or that a round begins.

Each report is one datagram, the cheapest way. The beginning of rounds is only reported to measure
latency. For Perdure's own runs the store is asked instead, because it knows of an end only once it
is written.
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

#: The variable that names the socket to a worker.
VARIABLE = "BENCH_TALLY"
#: The variable that is set if each round is to report its beginning.
STAMPING = "BENCH_STAMPING"


class Tally:
    """Counts the reports.

    Attributes:
        ready: Workers that are ready.
        ended: Runs that have ended.
        rounds: Rounds of these runs, as each counted them itself.
        began: When rounds began, in order, in seconds of ``time.monotonic``, which all processes
            share.
        environment: Variables that make a worker report.
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
        """Stop listening."""
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
    """Start a tally with its own socket. With ``stamping``, rounds report their beginning."""
    directory = Path(tempfile.mkdtemp(prefix="hf-"))
    listening = Tally(directory / "tally", stamping)
    try:
        yield listening
    finally:
        listening.close()
        shutil.rmtree(directory)


def tell_ready() -> None:
    """Report that this worker is ready."""
    _socket().send(b"ready")


def tell_end(rounds: int) -> None:
    """Report the end of a run with ``rounds`` rounds."""
    _socket().send(b"%d" % rounds)


def stamp() -> None:
    """Report the beginning of a round, if latency is measured."""
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
