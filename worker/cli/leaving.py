"""How a worker leaves: at the first Ctrl-C when its rounds are done, at the second at once."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from worker.engine import Engine

#: As a shell reports a program that Ctrl-C ended.
INTERRUPTED = 130
#: What a terminal sends to all processes under a supervisor, which passes it on as SIGTERM or SIGQUIT.
FROM_TERMINAL = (signal.SIGINT, signal.SIGHUP)


class Leaving:
    """Takes Ctrl-C (SIGINT) and SIGQUIT from Celery, once Celery has set its own handlers.

    Celery ends with an error code at the first Ctrl-C; at the second it ends no thread, fails over that, and lets the rounds of child
    processes fail. SIGTERM is the same as one Ctrl-C, however often it comes (wrappers like to send two). Celery hears the first alone: its
    handler takes a lock, and one that is interrupted by itself waits for that for ever.

    Args:
        engine: of this worker.
        alone: whether Ctrl-C is for this process to judge; else its supervisor does, and sends SIGTERM or SIGQUIT.
    """

    def __init__(self, engine: Engine, alone: bool = True) -> None:
        self._engine = engine
        self._alone = alone
        self._watching = False
        self._leave: Any = None

    def watch(self, **_: Any) -> None:
        """To be connected to Celery's signal ``worker_ready``, which also comes after each loss of the broker."""
        if not self._watching:
            self._watching = True
            self._leave = signal.signal(signal.SIGTERM, self._terminated)
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
        leave, self._leave = self._leave, None
        if callable(leave):
            leave(number, frame)

    def _at_once(self, *_: Any) -> None:
        from billiard import active_children

        if os.getpid() == self._engine.worker_pid:  # a child inherits the handler, and may not speak for its parent
            for child in active_children():
                os.kill(child.pid, signal.SIGKILL)
            self._engine.abandon()
        os._exit(INTERRUPTED)


def ignore_terminal() -> None:
    """Once Celery has set its own handlers. Handlers, and not SIG_IGN: that would be inherited by the programs that rounds run."""
    for number in FROM_TERMINAL:
        signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, FROM_TERMINAL)


def say_finishing() -> None:
    """To whoever pressed Ctrl-C."""
    if os.isatty(2):
        os.write(2, b"\nfinishing the rounds in flight; Ctrl-C again leaves them to other workers\n")
