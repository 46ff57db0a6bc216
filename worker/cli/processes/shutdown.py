"""A worker's shutdown. After the first Ctrl-C it finishes its rounds. A second Ctrl-C ends it."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

from perdure.worker.cli.exit_codes import INTERRUPTED_BY_USER

if TYPE_CHECKING:
    from perdure.worker.runtime.runtime import Runtime

#: Signals that a terminal sends to a supervisor and to its processes. The supervisor forwards them
#: as SIGTERM or SIGQUIT.
FROM_TERMINAL = (signal.SIGINT, signal.SIGHUP)


class Shutdown:
    """A worker's handlers of SIGINT, SIGTERM and SIGQUIT, replacing Celery's.

    Celery's handler exits with an error code on the first Ctrl-C. On the second Ctrl-C it cannot
    end the threads, raises an error, and lets the rounds of the child processes fail.

    Several SIGTERMs count as one Ctrl-C, because wrappers often send two. Only the first SIGTERM is
    passed to Celery's handler: that handler takes a lock, and would deadlock if it ran twice.

    Args:
        engine: The runtime of this worker.
        alone: Whether the worker has no supervisor, and handles Ctrl-C itself. A supervisor sends
            SIGTERM or SIGQUIT instead.
    """

    def __init__(self, engine: Runtime, alone: bool = True) -> None:
        self._engine = engine
        self._alone = alone
        self._is_installed = False
        self._celery_handler: Any = None

    def watch(self, **_: Any) -> None:
        """Install this worker's signal handlers. Later calls do nothing.

        This is a receiver of Celery's signal ``worker_ready``, because Celery has installed its own
        handlers by then. Celery sends the signal again after each lost connection to the broker.
        """
        if not self._is_installed:
            self._is_installed = True
            self._celery_handler = signal.signal(signal.SIGTERM, self._terminated)
            signal.signal(signal.SIGQUIT, self._at_once)
            if self._alone:
                signal.signal(signal.SIGINT, self._warm)
            else:
                ignore_terminal()

    def _warm(self, _signal: int, frame: Any) -> None:
        signal.signal(signal.SIGINT, self._at_once)
        say_finishing()
        self._terminated(signal.SIGTERM, frame)

    def _terminated(self, number: int, frame: Any) -> None:
        signal.signal(signal.SIGTERM, lambda *_: None)
        handler, self._celery_handler = self._celery_handler, None
        if callable(handler):
            handler(number, frame)

    def _at_once(self, *_: Any) -> None:
        from billiard import active_children

        # A child process inherits the handler, and must not abandon its parent's rounds.
        if os.getpid() == self._engine.worker_pid:
            for child in active_children():
                os.kill(child.pid, signal.SIGKILL)
            self._engine.abandon()
        os._exit(INTERRUPTED_BY_USER)


def ignore_terminal() -> None:
    """Make a supervised worker ignore its terminal's SIGINT and SIGHUP.

    The supervisor sends SIGTERM or SIGQUIT instead. Call this after Celery has set its own
    handlers. The handlers do nothing. SIG_IGN is not used, because programs that rounds start would
    inherit it.
    """
    for number in FROM_TERMINAL:
        signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, FROM_TERMINAL)


def say_finishing() -> None:
    """Print that the worker finishes its rounds in flight.

    The line also says that a second Ctrl-C leaves these rounds to other workers. Nothing is printed
    if standard error is not a terminal.
    """
    if os.isatty(2):
        os.write(
            2, b"\nfinishing the rounds in flight; Ctrl-C again leaves them to other workers\n"
        )
