"""The command line as a user meets it: a real process, nothing set but what the test sets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perdure.worker.settings import Settings
from tests.support.os_processes import end_all

ROOT = Path(__file__).parents[2]
#: -P: as the installed command, which does not have the working directory on its path.
COMMAND = [sys.executable, "-P", "-m", "perdure"]


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON document it printed."""
        return json.loads(self.out)


class CommandLine:
    """``perdure`` in a directory of its own, without the user's settings.

    Args:
        directory: where it runs, and where its state directory is.
        settings: server and prefix to use; None leaves it to the command to find a server.
        variables: more of the environment.
    """

    def __init__(self, directory: Path, settings: Settings | None = None, **variables: str) -> None:
        self.directory = directory
        bare = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PERDURE_", "CELERY_"))
        }
        self.environment = {
            **bare,
            "PYTHONPATH": str(ROOT),
            "XDG_STATE_HOME": str(directory / "state"),
            "NO_COLOR": "1",
            **variables,
        }
        if settings is not None:
            assert settings.redis_url is not None
            self.environment |= {
                "PERDURE_REDIS_URL": settings.redis_url,
                "PERDURE_PREFIX": settings.prefix,
            }

    def __call__(self, *arguments: str | bytes, variables: Mapping[str, str] | None = None) -> Done:
        """Run one command to its end. No command may ever show a traceback."""
        done = subprocess.run(
            [*COMMAND, *arguments],
            cwd=self.directory,
            env={**self.environment, **(variables or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=60,
            check=False,
        )
        assert "Traceback" not in done.stdout + done.stderr, done.stderr
        return Done(done.returncode, done.stdout, done.stderr)

    @contextmanager
    def running(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """A command that goes on; killed afterwards, if it has not ended."""
        process = subprocess.Popen(
            [*COMMAND, *arguments],
            cwd=self.directory,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        with process:
            try:
                yield process
            finally:
                end_all(process)

    @contextmanager
    def worker(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """``perdure worker``, ready."""
        with self.running("worker", *arguments) as process:
            wait_for_line(process, "worker ready")
            yield process


def wait_for_line(process: subprocess.Popen[str], words: str) -> str:
    """Read what the process says on stderr until a line holds ``words``; returns it."""
    assert process.stderr is not None
    said = []
    for line in process.stderr:
        said.append(line)
        if words in line:
            return line
    raise AssertionError(f"it never said {words!r}, but: {''.join(said)}")
