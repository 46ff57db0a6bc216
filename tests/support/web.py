"""Control rooms for tests: one in this process, and as many in processes of their own as a test wants."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI, Request

from tests.support.servers import until
from tests.support.workers import ROOT
from worker.settings import Settings
from worker.web import Caller, create_app


@contextmanager
def serving(settings: Settings, caller: Callable[[Request], Caller] | None = None) -> Iterator[str]:
    """A control room on a port of loopback, in a thread of this process; its address."""
    with serving_app(create_app(settings, caller=caller)) as url:
        yield url


@contextmanager
def serving_app(app: FastAPI) -> Iterator[str]:
    """Any app, likewise."""
    door = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="on"))
    thread = threading.Thread(target=server.run, args=([door],), name="control-room")
    thread.start()
    try:
        until(lambda: server.started or not thread.is_alive(), "the control room")
        yield f"http://127.0.0.1:{door.getsockname()[1]}"
    finally:
        if hasattr(app.state, "hub"):
            app.state.hub.close()  # as the signal does that ends a process
        server.should_exit = True
        thread.join(20)
        door.close()


class ServerProcess:
    """A control room as a process of its own, on the port that ``port`` says once it is ready."""

    def __init__(self, settings: Settings) -> None:
        assert settings.redis_url is not None
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port = self._door.getsockname()[1]
        bare = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "uvicorn",
                "worker.web:create_app",
                "--factory",
                "--fd",
                str(self._door.fileno()),
                "--log-level",
                "warning",
            ],
            cwd=ROOT,
            env={**bare, "HOLDFAST_REDIS_URL": settings.redis_url, "HOLDFAST_PREFIX": settings.prefix},
            pass_fds=[self._door.fileno()],
            start_new_session=True,
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def terminate(self, seconds: float = 20.0) -> int:
        """SIGTERM; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(seconds)

    def close(self) -> None:
        """End it however it is."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(10)
        self._door.close()


@contextmanager
def server_processes(count: int, settings: Settings) -> Iterator[list[ServerProcess]]:
    """``count`` of them. They listen from the start: who connects before they are ready is served when they are."""
    running = [ServerProcess(settings) for _ in range(count)]
    try:
        yield running
    finally:
        for each in running:
            each.close()
