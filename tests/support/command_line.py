"""The command line without the settings of the user: in this process, and as a new one."""

from __future__ import annotations

import contextvars
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from perdure.worker.cli.main import main
from perdure.worker.settings import Settings
from tests.support.os_processes import end_all
from tests.support.process_state import like_a_new_process

ROOT = Path(__file__).parents[2]
#: -P: as the installed command, which does not have the working directory on its path.
COMMAND = [sys.executable, "-P", "-m", "perdure"]
#: Beginnings of the names of variables that count only in a process that starts with them.
READ_ONCE = ("PYTHON", "OTEL_")
AT_START = {**os.environ, "PYTHONPATH": str(ROOT)}


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


def run_here(
    entry: Callable[[], object], words: list[str], directory: Path, environment: Mapping[str, str]
) -> Done:
    """Run a program by its entry in this process, as if it were a new process."""
    for name, value in environment.items():
        assert not name.startswith(READ_ONCE) or value == AT_START.get(name), (
            f"{name} counts only in a process that starts with it: use CommandProcess"
        )
    out, err = _Output(), _Output()
    with (
        like_a_new_process(directory, environment),
        patch.object(sys, "argv", words),
        open(os.devnull) as nothing,
        patch.object(sys, "stdin", nothing),
        patch.object(sys, "__stdout__", out),  # its width, if it were a terminal
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        code: object = 0
        try:
            contextvars.Context().run(entry)
        except SystemExit as ended:
            code = ended.code
    assert isinstance(code, int), code
    return Done(code, out.text, err.text)


class _Output(io.TextIOWrapper):
    """A command's output into a pipe."""

    def __init__(self) -> None:
        self._bytes = io.BytesIO()
        super().__init__(self._bytes, encoding="utf-8", write_through=True)

    @property
    def text(self) -> str:
        """The output so far."""
        self.flush()
        return self._bytes.getvalue().decode(errors="replace")


class CommandLine:
    """``perdure`` in a new directory, without the user's settings.

    A call runs the command in this process. `running` and `worker` start a process.

    Args:
        directory: where it runs, and where its state directory is.
        settings: server, prefix, heartbeat and lease to use; None leaves it to the command to find
            a server.
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
                "PERDURE_HEARTBEAT_SECONDS": str(settings.heartbeat_seconds),
                "PERDURE_LEASE_SECONDS": str(settings.lease_seconds),
            }

    def __call__(self, *arguments: str | bytes, variables: Mapping[str, str] | None = None) -> Done:
        """Run one command to its end. No command may ever show a traceback."""
        done = self._run(
            list(map(os.fsdecode, arguments)), {**self.environment, **(variables or {})}
        )
        assert "Traceback" not in done.out + done.err, done.err
        return done

    def _run(self, arguments: list[str], environment: dict[str, str]) -> Done:
        return run_here(main, ["perdure", *arguments], self.directory, environment)

    @contextmanager
    def running(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """Start a command that goes on; kill it afterwards, if it has not ended."""
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
        """Start ``perdure worker``, and wait until it is ready."""
        with self.running("worker", *arguments) as process:
            wait_for_line(process, "worker ready")
            yield process


class CommandProcess(CommandLine):
    """``perdure`` as a user meets it: each command is a process."""

    def _run(self, arguments: list[str], environment: dict[str, str]) -> Done:
        done = subprocess.run(
            [*COMMAND, *arguments],
            cwd=self.directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=60,
            check=False,
        )
        return Done(done.returncode, done.stdout, done.stderr)


def wait_for_line(process: subprocess.Popen[str], words: str) -> str:
    """Read the process's stderr until a line holds ``words``; return the line."""
    assert process.stderr is not None
    said = []
    for line in process.stderr:
        said.append(line)
        if words in line:
            return line
    raise AssertionError(f"it never said {words!r}, but: {''.join(said)}")
