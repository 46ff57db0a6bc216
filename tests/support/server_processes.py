"""Server processes for tests that end them."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from perdure.worker.settings import Settings
from tests.support.command_line import COMMAND, ROOT


class ServerProcess:
    """``perdure server``.

    It listens from the start: who connects before it is ready is served when it is.
    """

    def __init__(self, settings: Settings) -> None:
        assert settings.redis_url is not None
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port = self._door.getsockname()[1]
        bare = {
            name: value for name, value in os.environ.items() if not name.startswith("PERDURE_")
        }
        self.process = subprocess.Popen(
            [*COMMAND, "server", "--descriptor", str(self._door.fileno())],
            env={
                **bare,
                "PYTHONPATH": str(ROOT),
                "PERDURE_REDIS_URL": settings.redis_url,
                "PERDURE_PREFIX": settings.prefix,
            },
            pass_fds=[self._door.fileno()],
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def terminate(self, seconds: float = 20.0) -> int:
        """Send SIGTERM; return the exit code. New connections are refused from now on."""
        self._door.close()
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(seconds)

    def close(self) -> None:
        """End it in any state."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(10)
        self._door.close()


@contextmanager
def server_processes(count: int, settings: Settings) -> Iterator[list[ServerProcess]]:
    """Start ``count`` server processes."""
    running = [ServerProcess(settings) for _ in range(count)]
    try:
        yield running
    finally:
        for each in running:
            each.close()
