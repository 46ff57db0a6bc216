"""A worker's shutdown: the first Ctrl-C waits for its rounds, the second ends it at once."""

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
    """Handlers of SIGINT, SIGTERM and SIGQUIT that replace Celery's.

    They are installed once Celery has set its own. Celery's handler exits with an error code on the
    first Ctrl-C. On the second it cannot end the threads, raises, and lets the rounds of the child
    processes fail.

    Any number of SIGTERMs counts as one Ctrl-C, since wrappers often send two. Only the first
    SIGTERM reaches Celery: its handler takes a lock, and would deadlock if it interrupted itself.

    Args:
        engine: The runtime of this worker.
        alone: Whether this process handles Ctrl-C itself. Otherwise its supervisor does, and sends
            SIGTERM or SIGQUIT.
    """

    def __init__(self, engine: Runtime, alone: bool = True) -> None:
        self._engine = engine
        self._alone = alone
        self._is_installed = False
        self._celery_handler: Any = None

    def watch(self, **_: Any) -> None:
        """Install this worker's signal handlers once it is ready.

        This receives Celery's signal ``worker_ready``. Celery sends the signal again after each
        lost connection to the broker, so only the first call installs the handlers.
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
    """Ignore a terminal's signals to a supervised worker.

    The supervisor forwards them as SIGTERM or SIGQUIT. Call this once Celery has set its own
    handlers. Empty handlers are used, because programs that rounds start would inherit SIG_IGN.
    """
    for number in FROM_TERMINAL:
        signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, FROM_TERMINAL)


def say_finishing() -> None:
    """Print that the worker finishes its rounds in flight, after the first Ctrl-C.

    The line also says that a second Ctrl-C leaves these rounds to other workers. Nothing is printed
    if standard error is not a terminal.
    """
    if os.isatty(2):
        os.write(
            2, b"\nfinishing the rounds in flight; Ctrl-C again leaves them to other workers\n"
        )
