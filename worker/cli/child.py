"""Child: a worker, or the control room, in a process of its own, for `up` and `demo`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from worker.cli.shadow import HOME

#: Seconds it gets to finish its rounds when it is asked to leave.
DRAIN_SECONDS = 60.0


class Child:
    """A process in a session of its own. It leaves by itself when this process is gone: then its standard input ends.

    Args:
        arguments: of ``holdfast COMMAND``.
        environment: over this process's.
        directory: where it runs.
        quiet: whether what it says goes nowhere.
        command: ``worker`` or ``server``.
        descriptors: open files that it has too, by the same numbers.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
        quiet: bool = False,
        command: str = "worker",
        descriptors: Sequence[int] = (),
    ) -> None:
        self._command = command
        self._descriptors = tuple(descriptors)
        self._arguments = arguments
        self._environment = dict(environment or {})
        self._directory = directory
        self._quiet = quiet
        self.process = self._start()

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self.process.poll()

    def restart(self) -> None:
        """Another process with the same arguments, in place of one that has ended."""
        self.kill()
        self.process = self._start()

    def leave(self) -> None:
        """Ask it to finish its rounds and leave, and wait for that; one that takes too long is killed."""
        if self.process.poll() is None:
            with suppress(ProcessLookupError):
                self.process.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(DRAIN_SECONDS)
        self.kill()

    def kill(self) -> None:
        """SIGKILL its whole process group."""
        if self.process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        if self.process.stdin is not None:
            self.process.stdin.close()

    def _start(self) -> subprocess.Popen[bytes]:
        path = os.pathsep.join([str(HOME), *filter(None, [os.environ.get("PYTHONPATH")])])
        return subprocess.Popen(
            # -P: a folder named `worker` in the working directory must not come before ours.
            [sys.executable, "-P", "-m", "worker.cli", self._command, "--until-stdin-ends", *self._arguments],
            env={**os.environ, "PYTHONPATH": path, **self._environment},
            cwd=self._directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL if self._quiet else None,
            start_new_session=True,
            pass_fds=self._descriptors,
        )
