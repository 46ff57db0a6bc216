"""Part: one of several workers under a supervisor. It plays as a lone one does, and leaves when its supervisor says so or is gone."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

from worker.cli.exits import told
from worker.cli.leaving import FROM_TERMINAL
from worker.orphans import LOOK_EVERY_SECONDS

if TYPE_CHECKING:
    from worker.cli.worker import Play, Ready

#: Seconds that the rounds in flight get when the supervisor is gone; then they are left to other workers.
DRAIN_SECONDS = 60.0
#: Seconds to let their leases go.
AT_ONCE_SECONDS = 5.0


def main(play: Play, supervisor: int, ready: Connection, quiet: bool) -> None:
    """The whole life of the process; it never returns.

    Args:
        play: what to play.
        supervisor: its process id.
        ready: is told what the worker is, once it is ready.
        quiet: another process has said already what the doctor warns of.
    """
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGQUIT, *FROM_TERMINAL):
        signal.signal(number, signal.SIG_DFL)
    # Celery takes these while it starts; held back until it is done (worker/cli/leaving.py).
    signal.pthread_sigmask(signal.SIG_SETMASK, FROM_TERMINAL)
    threading.Thread(target=_leave_after, args=(supervisor,), name="holdfast-supervisor", daemon=True).start()
    if quiet:
        logging.getLogger("holdfast.doctor").setLevel(logging.CRITICAL)

    def say_ready(worker: Ready) -> None:
        if not ready.closed:
            ready.send(worker)
            ready.close()

    try:
        play(say_ready, alone=False)
    except (Exception, KeyboardInterrupt) as error:
        sys.exit(told(error))
    sys.exit(0)


def mourn_process(play: Play, pid: int) -> None:
    """Run a process that frees what a dead one held. The supervisor itself has no connection, so that it can be forked."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGQUIT, *FROM_TERMINAL):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM, signal.SIGQUIT, *FROM_TERMINAL))
    from worker.app import engine_of, make_app
    from worker.mourning import mourn

    held = mourn(engine_of(make_app(play.settings)), pid)
    if held:
        logging.getLogger("holdfast.processes").warning(
            "process %d died under %d rounds; they are queued again: %s", pid, len(held), ", ".join(held[:5])
        )


def _leave_after(supervisor: int) -> None:
    """Leaves when the supervisor is gone (SIGKILL): as if told to, with a limit; who starts another need not wait for this one."""
    while os.getppid() == supervisor:
        time.sleep(LOOK_EVERY_SECONDS)
    for number, patience in ((signal.SIGTERM, DRAIN_SECONDS), (signal.SIGQUIT, AT_ONCE_SECONDS), (signal.SIGKILL, 0.0)):
        os.kill(os.getpid(), number)
        time.sleep(patience)
