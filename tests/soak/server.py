"""The soak's server: it can be killed, frozen, filled up, and its clock set, all from outside and
without being root.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import resource
import shlex
import signal
import time
from pathlib import Path

import redis

from tests.support.redis_servers import CrashableServer, available_binaries, until

#: The library that answers a program's questions for the time; of the package libfaketime, which
#: brings it built for x86-64 Linux.
CLOCK_LIBRARY = Path("vendor/libfaketime/src/libfaketime.so.1")


class SoakServer(CrashableServer):
    """A Valkey with ``appendfsync always``, so that "acknowledged" has an exact meaning.

    Its program is started by a small script with two settings for the faults: the signal of a file
    grown too large ignored (the write then fails, as on a full disk), and the clock's library in
    front of libc.
    """

    def __init__(self, directory: Path) -> None:
        self._clock = directory / "clock"
        self.restarts = 0
        super().__init__(directory / "data", self._program(directory), "always")

    def admin(self) -> redis.Redis:
        """Open a connection for one fault, without retries."""
        return redis.Redis(
            unix_socket_path=str(self.socket), decode_responses=True, socket_timeout=10, retry=None
        )

    def start_again(self) -> None:
        """Start it after its end, and count."""
        self.start()
        self.restarts += 1

    @property
    def process(self) -> int:
        """Its process id as of its start: a frozen server answers no questions."""
        assert self._confirmed is not None, "the server was never started"
        return self._confirmed

    def freeze(self, seconds: float) -> None:
        """Suspend the server; connections stay, nothing is answered."""
        os.kill(self.process, signal.SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            os.kill(self.process, signal.SIGCONT)

    @property
    def has_clock(self) -> bool:
        """Whether its clock can be set on this machine."""
        return _clock_library() is not None

    def set_clock(self, ahead: float) -> None:
        """Set its clock ``ahead`` seconds before the true one (below zero: behind), and return when
        it reports so itself.
        """
        written = self._clock.with_suffix(".new")
        written.write_text(f"{ahead:+.3f}\n")
        written.replace(self._clock)
        with self.admin() as admin:
            until(
                lambda: abs(_ahead(admin) - ahead) < 1.0, f"a server's clock {ahead:+.0f} s ahead"
            )

    def fill_disk(self, room: int) -> None:
        """Limit the growth of its files to ``room`` bytes: writes beyond it fail."""
        largest = max(path.stat().st_size for path in self.directory.rglob("*.aof"))
        resource.prlimit(
            self.process, resource.RLIMIT_FSIZE, (largest + room, resource.RLIM_INFINITY)
        )

    def free_disk(self) -> None:
        """Remove the limit of its files."""
        resource.prlimit(
            self.process, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        )

    def _program(self, directory: Path) -> Path:
        lines = ["#!/bin/sh", "trap '' XFSZ"]
        library = _clock_library()
        if library is not None:
            self._clock.write_text("+0\n")
            lines += [
                f"export FAKETIME_TIMESTAMP_FILE={shlex.quote(str(self._clock))}",
                "export FAKETIME_NO_CACHE=1 FAKETIME_DONT_FAKE_MONOTONIC=1 FAKETIME_DISABLE_SHM=1",
                f"export LD_PRELOAD={shlex.quote(str(library))}",
            ]
        program = directory / "server.sh"
        program.write_text(
            "\n".join([*lines, f'exec {shlex.quote(str(available_binaries()["valkey"]))} "$@"', ""])
        )
        program.chmod(0o700)
        return program


def _ahead(admin: redis.Redis) -> float:
    seconds, micros = admin.time()
    return float(seconds) + float(micros) / 1e6 - time.time()


def _clock_library() -> Path | None:
    found = importlib.util.find_spec("libfaketime")
    if (
        found is None
        or found.origin is None
        or platform.machine() != "x86_64"
        or platform.system() != "Linux"
    ):
        return None
    return Path(found.origin).parent / CLOCK_LIBRARY
