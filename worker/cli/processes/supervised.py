"""A worker process with a supervisor. It exits on the supervisor's signal, or if that has died."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING

from perdure.worker.cli.exit_codes import report_error
from perdure.worker.cli.processes.shutdown import FROM_TERMINAL

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from perdure.worker.cli.processes.worker_process import Ready, WorkerProcess

#: Seconds that the rounds in flight have to finish after SIGTERM. Then other workers take them.
DRAIN_SECONDS = 60.0
#: Seconds that the process has to release its leases after SIGQUIT, before SIGKILL.
AT_ONCE_SECONDS = 5.0


def main(worker: WorkerProcess, supervisor: int, ready: Connection, quiet: bool) -> None:
    """Run a supervised worker until shutdown, then exit this process.

    This never returns. An error of the worker is printed on stderr, and decides the exit code.

    Args:
        worker: The worker to run.
        supervisor: The supervisor's process id.
        ready: The connection on which to send the worker's description when it is ready.
        quiet: Whether to hide the doctor's warnings, because another process has logged them.
    """
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGQUIT, *FROM_TERMINAL):
        signal.signal(number, signal.SIG_DFL)
    # While Celery starts, its handlers would take these. `ignore_terminal` unblocks them.
    signal.pthread_sigmask(signal.SIG_SETMASK, FROM_TERMINAL)
    threading.Thread(
        target=_leave_after, args=(supervisor,), name="perdure-supervisor", daemon=True
    ).start()
    if quiet:
        logging.getLogger("perdure.doctor").setLevel(logging.CRITICAL)

    def say_ready(description: Ready) -> None:
        if not ready.closed:
            ready.send(description)
            ready.close()

    try:
        worker(say_ready, alone=False)
    except (Exception, KeyboardInterrupt) as error:
        sys.exit(report_error(error))
    sys.exit(0)


def requeue_rounds(worker: WorkerProcess, pid: int) -> None:
    """Requeue the rounds of a dead worker process by releasing its leases.

    This runs in a separate process. The supervisor itself must have no connection, because it
    forks.

    Args:
        worker: The worker that each process of the supervisor runs.
        pid: The process id of the dead worker process.
    """
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGQUIT, *FROM_TERMINAL):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM, signal.SIGQUIT, *FROM_TERMINAL))
    from perdure.worker.app import engine_of, make_app
    from perdure.worker.runtime.process_loss import release_after_death

    run_ids = release_after_death(engine_of(make_app(worker.settings)), pid)
    if run_ids:
        logging.getLogger("perdure.processes").warning(
            "process %d died with %d rounds in flight; they are queued again: %s",
            pid,
            len(run_ids),
            ", ".join(run_ids[:5]),
        )


def _leave_after(supervisor: int) -> None:
    """Wait until the supervisor has died, then shut this process down.

    The rounds in flight have DRAIN_SECONDS to finish after SIGTERM. Then this process sends itself
    SIGQUIT, and SIGKILL after AT_ONCE_SECONDS.

    Args:
        supervisor: The supervisor's process id.
    """
    from perdure.worker.runtime.runtime import LOOK_EVERY_SECONDS

    while os.getppid() == supervisor:
        time.sleep(LOOK_EVERY_SECONDS)
    for number, patience in (
        (signal.SIGTERM, DRAIN_SECONDS),
        (signal.SIGQUIT, AT_ONCE_SECONDS),
        (signal.SIGKILL, 0.0),
    ):
        os.kill(os.getpid(), number)
        time.sleep(patience)


def leave_with_stdin() -> None:
    """Wait until standard input ends, then send SIGTERM to this process.

    Standard input is a pipe from `up` or `demo`, so it ends when that process dies. This process is
    in a session of its own, and would otherwise continue without its parent.
    """
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
