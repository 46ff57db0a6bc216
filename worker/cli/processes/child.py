"""Child processes of `up` and `demo`: a worker or an HTTP server. `up` restarts them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import click

import perdure
from perdure.worker.cli.exit_codes import Failed
from perdure.worker.cli.interrupts import raise_on
from perdure.worker.cli.processes.restarts import Restarts, ending, no_pause
from perdure.worker.cli.processes.supervised import DRAIN_SECONDS

#: The folder that holds the package ``perdure``.
HOME = Path(perdure.__file__).parents[1]


class ChildProcess:
    """A child process that runs a ``perdure`` command in its own session.

    It starts with the object. If this process dies, the child's standard input ends, and the child
    shuts down.

    Args:
        arguments: The arguments after ``perdure COMMAND``.
        environment: Environment variables of the child that override those of this process.
        directory: The child's working directory. None means that of this process.
        quiet: Whether to discard the child's standard error.
        command: ``worker`` or ``server``.
        descriptors: File descriptors that the child inherits under the same numbers.
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
        """The process id of the child that was started last."""
        return self.process.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code of the child that was started last. None while it runs."""
        return self.process.poll()

    def restart(self) -> None:
        """Restart the child process with the same arguments.

        The old process is killed if it still runs.
        """
        self.kill()
        self.process = self._start()

    def leave(self) -> None:
        """Shut the child process down, and wait until it has ended.

        SIGTERM gives it DRAIN_SECONDS to finish its rounds in flight. If it still runs then, it is
        killed.
        """
        if self.process.poll() is None:
            with suppress(ProcessLookupError):
                self.process.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(DRAIN_SECONDS)
        self.kill()

    def kill(self) -> None:
        """Kill the child and its process group if the child still runs."""
        if self.process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        if self.process.stdin is not None:
            self.process.stdin.close()

    def _start(self) -> subprocess.Popen[bytes]:
        path = os.pathsep.join([str(HOME), *filter(None, [os.environ.get("PYTHONPATH")])])
        return subprocess.Popen(
            # -P: a module in the working directory must not replace one of Perdure's.
            [
                sys.executable,
                "-P",
                "-m",
                "perdure",
                self._command,
                "--until-stdin-ends",
                *self._arguments,
            ],
            env={**os.environ, "PYTHONPATH": path, **self._environment},
            cwd=self._directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL if self._quiet else None,
            start_new_session=True,
            pass_fds=self._descriptors,
        )


#: Give up on a child that ended this often in a row, each time within SOON seconds of its start.
DEATHS, SOON = 4, 10.0


class SupervisedChild:
    """A child process that its owner restarts when it ends, by ``restart_if_ended``.

    Args:
        name: The child's name in messages to the user.
        child: The running child.
        note: The end of the message about a restart.
    """

    def __init__(self, name: str, child: ChildProcess, note: str = "") -> None:
        self.name = name
        self.child = child
        self._note = note
        self._restarts = Restarts(SOON, no_pause)
        self._restarts.began()

    def restart_if_ended(self) -> None:
        """Restart the child process if it has ended, and print that on stderr.

        Raises:
            Failed: The child has ended DEATHS times in a row, each time within SOON seconds of its
                start. Or its exit code is 2 (a usage error).
        """
        code = self.child.exit_code
        if code is None:
            return
        self._restarts.ended()
        # Exit code 2 is a usage error: the next process would end the same way.
        if code == 2:
            raise Failed(f"the {self.name} ended with exit code 2; the reason is above")
        if self._restarts.ends == DEATHS:
            raise Failed(
                f"the {self.name} ended {self._restarts.ends} times in a row right after its "
                f"start, last with exit code {code}; the reason is above"
            )
        click.echo(
            f"the {self.name} ended ({ending(code)}); starting another{self._note}", err=True
        )
        self.child.restart()
        self._restarts.began()


def leave_on_signals() -> None:
    """Make SIGTERM and SIGHUP raise KeyboardInterrupt, as Ctrl-C does.

    A terminal sends SIGHUP when it is closed. Signals that this process ignores stay ignored.
    """
    raise_on(signal.SIGTERM, signal.SIGHUP)
