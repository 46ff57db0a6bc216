"""Real worker processes, each in its own process group, and the pools that they can have."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from perdure import Client
from perdure.worker.settings import Settings
from tests.support.os_processes import end_all
from tests.support.redis_servers import until

ROOT = Path(__file__).parents[2]
FLOWS = "tests.support.example_flows.rings"


class WorkerProcess:
    """``celery -A APP worker`` as a user starts it, in ``root``.

    ``log`` is the file that its output is added to; None for nowhere.
    """

    def __init__(
        self,
        settings: Settings,
        *options: str,
        app: str = "perdure.app",
        root: Path = ROOT,
        log: Path | None = None,
        **environment: str,
    ) -> None:
        assert settings.redis_url is not None
        self._client = Client(settings=settings)
        command = [
            sys.executable,
            "-m",
            "celery",
            "-A",
            app,
            "worker",
            "--loglevel",
            "WARNING",
            "--without-gossip",
            "--without-mingle",
        ]
        self._errors = tempfile.TemporaryFile() if log is None else log.open("a+b")  # noqa: SIM115
        weakref.finalize(self, self._errors.close)  # also of a worker that no test closes
        self.process = subprocess.Popen(
            [*command, "--without-heartbeat", *options],
            cwd=root,
            env={
                **_bare(),
                "PERDURE_REDIS_URL": settings.redis_url,
                "PERDURE_PREFIX": settings.prefix,
                **({"PERDURE_BROKER_URL": settings.broker_url} if settings.broker_url else {}),
                "PERDURE_FLOW_MODULES": FLOWS,
                "PYTHONFAULTHANDLER": "1",
                **environment,
            },
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE if environment.get("SHOW") else self._errors,
            start_new_session=True,
        )

    @property
    def name(self) -> str | None:
        """Its name once it has announced itself."""
        for worker in self._client.workers():
            if worker["pid"] == self.process.pid:
                return str(worker["name"])
        return None

    def ready(self) -> WorkerProcess:
        """Wait until it has announced itself.

        If it does not, the error has the worker's output, and shows where each of its threads
        stands.
        """
        try:
            until(lambda: self.name is not None or self._ended, "a worker's announcement", 30)
        except AssertionError as error:
            self.process.send_signal(signal.SIGABRT)  # faulthandler writes where its threads stand
            self.process.wait(10)
            raise AssertionError(f"{error}\n{self._wrote()}") from None
        assert not self._ended, (
            f"the worker ended with {self.process.returncode} before it was ready\n{self._wrote()}"
        )
        return self

    @property
    def _ended(self) -> bool:
        return self.process.poll() is not None

    def _wrote(self) -> str:
        """Return its output to standard error, at most the last 16 KiB."""
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - 16 * 1024))
        return self._errors.read().decode(errors="replace")

    def kill(self) -> None:
        """Send SIGKILL to its whole process group."""
        end_all(self.process)

    def terminate(self) -> None:
        """Send SIGTERM: a warm shutdown."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)

    def close(self) -> None:
        """End it in any state, with its connections."""
        self.kill()
        if self.process.stderr is not None:
            self.process.stderr.close()
        self._client.close()


@contextmanager
def workers(
    count: int, settings: Settings, *options: str, app: str = "perdure.app", **environment: str
) -> Iterator[list[WorkerProcess]]:
    """Start ``count`` workers, and wait until they are ready; kill them afterwards."""
    running = [WorkerProcess(settings, *options, app=app, **environment) for _ in range(count)]
    try:
        yield [worker.ready() for worker in running]
    finally:
        for worker in running:
            worker.close()


def _bare() -> dict[str, str]:
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PERDURE_", "CELERY_"))
    }


POOLS = ("threads", "prefork", "solo")
#: For behaviour with a test on each pool elsewhere, or little difference: the default pool quickly,
#: the others in the slow suite.
ONE_AND_SLOWLY_THE_OTHERS = (
    "threads",
    *(pytest.param(pool, marks=pytest.mark.slow) for pool in POOLS[1:]),
)
