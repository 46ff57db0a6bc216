"""The supervisor of ``worker --processes``: it starts, restarts and stops worker processes.

The supervisor runs no rounds and has no connection to a server. The worker processes are in its
process group, so a terminal's Ctrl-C reaches all of them. They ignore Ctrl-C, and the supervisor
sends each of them SIGTERM or SIGQUIT instead (worker/cli/processes/supervised.py).
"""

from __future__ import annotations

import gc
import logging
import multiprocessing
import os
import platform
import signal
import time
from dataclasses import dataclass, field
from importlib import import_module
from multiprocessing import connection
from typing import Any

from perdure.worker.cli.exit_codes import INTERNAL, INTERRUPTED_BY_USER
from perdure.worker.cli.processes import supervised
from perdure.worker.cli.processes.restarts import Restarts, ending, pause
from perdure.worker.cli.processes.shutdown import say_finishing
from perdure.worker.cli.processes.supervised import AT_ONCE_SECONDS
from perdure.worker.cli.processes.worker_process import Ready, WorkerProcess
from perdure.worker.logs import set_up_logging

logger = logging.getLogger("perdure.processes")

#: Forked processes share the supervisor's imports: half of their memory, and three quarters of
#: their start. Forking is safe because the supervisor has one thread and no connection. It does
#: not import the user's flows, whose modules may start threads and open connections. Each process
#: imports those itself. On macOS, system libraries do not survive a fork, so processes are spawned.
METHOD = "spawn" if platform.system() == "Darwin" else "fork"
#: Modules that every worker imports; the supervisor imports them before it forks.
IMPORTED = (
    "celery.app.control",
    "celery.apps.worker",
    "celery.concurrency.solo",
    "celery.concurrency.thread",
    "celery.worker.autoscale",
    "celery.worker.components",
    "celery.worker.consumer",
    "celery.worker.strategy",
    "perdure.flows.controllers.model",
    "perdure.flows.executors.mcp",
    "perdure.flows.library.bisect",
    "perdure.flows.library.countdown",
    "perdure.flows.library.question",
    "perdure.flows.loading.load",
    "kombu.transport.redis",
    "perdure.app",
    "perdure.worker.cli.processes.shutdown",
    "perdure.worker.runtime.consumer",
    "perdure.worker.runtime.startup_checks",
    "perdure.worker.messaging.transports",
    "perdure.worker.runtime.request",
)
#: Seconds after which a process counts as stable: its end then restarts the backoff.
SETTLED = 60.0
#: Signals that the supervisor handles.
HANDLED = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)


@dataclass(eq=False)
class Slot:
    """One of the supervisor's worker processes, with its successors after restarts.

    Attributes:
        process: The process that runs now. None between two processes.
        ready: The connection on which the process reports that it is ready. None after the report.
        is_ready: Whether the process has reported that it is ready.
        restarts: The number of ends in a row, and the time of the next start.
    """

    process: Any = None
    ready: connection.Connection | None = None
    is_ready: bool = False
    restarts: Restarts = field(default_factory=lambda: Restarts(SETTLED, pause))
    #: The exit code of the last process, if it exited by itself before it was ready.
    refused: int | None = None
    #: The exit codes of processes that ended during the shutdown.
    left: list[int] = field(default_factory=list)


class Supervisor:
    """Keeps ``count`` worker processes running until this process is shut down.

    Args:
        worker: The worker that each process runs.
        count: The number of worker processes, at least 2.
        with_stdin: Whether this process also shuts down at the end of standard input, as it does at
            SIGTERM.
    """

    def __init__(self, worker: WorkerProcess, count: int, with_stdin: bool = False) -> None:
        self._worker = worker
        self._slots = [Slot() for _ in range(count)]
        self._context = multiprocessing.get_context(METHOD)
        self._watched: list[int] = [0] if with_stdin else []
        self._has_said_ready = False
        self._interrupts = 0
        self._leaving = False
        self._at_once = False
        self._kill_at: float | None = None
        #: Processes that requeue the rounds of dead workers.
        self._cleanups: list[Any] = []

    def run(self) -> int:
        """Run the supervisor until its workers are shut down. Return its exit code.

        A signal begins the shutdown. The supervisor ends too if no worker process can start.

        Returns:
            The exit code: 0 after a graceful shutdown, INTERRUPTED_BY_USER after one at once, and
            INTERNAL if a worker failed during the shutdown. If no worker process can start, the
            exit code of one of them.
        """
        set_up_logging(self._worker.settings.log_format, several=True)
        if METHOD == "fork":
            for name in IMPORTED:
                import_module(name)
            gc.collect()
            # A collection in a child would write to the shared pages, and so copy them.
            gc.freeze()
        signals = _listen()
        try:
            # The others start when the first one is ready, so that an error is reported once.
            self._start(self._slots[0])
            return self._watch(signals)
        except BaseException:
            self._send(signal.SIGTERM)  # Python waits for the processes before it exits.
            raise

    def _watch(self, signals: int) -> int:
        while True:
            living = [slot for slot in self._slots if slot.process is not None]
            if not living and self._is_over():
                return self._code()
            talking = [slot.ready for slot in living if slot.ready is not None]
            sentinels = [slot.process.sentinel for slot in living]
            cleanups = [process.sentinel for process in self._cleanups]
            woken = connection.wait(
                [signals, *self._watched, *talking, *sentinels, *cleanups], self._timeout()
            )
            if signals in woken:
                for number in os.read(signals, 4096):
                    self._handle(number)
            if 0 in woken and not os.read(0, 4096):
                self._watched.clear()
                self._handle(signal.SIGTERM)
            for slot in living:
                if slot.ready in woken:
                    self._take_ready(slot)
                if slot.process.sentinel in woken:
                    self._take_end(slot)
            for process in [each for each in self._cleanups if each.sentinel in woken]:
                process.join(0.1)
                self._cleanups.remove(process)
            self._act()

    def _act(self) -> None:
        """Start the worker processes whose restart is due.

        During a shutdown at once, kill the worker processes that still run after AT_ONCE_SECONDS.
        """
        now = time.monotonic()
        if self._kill_at is not None and now >= self._kill_at:
            self._send(signal.SIGKILL)
        for slot in self._slots:
            due = slot.restarts.next_start
            if due is not None and now >= due and not self._leaving:
                self._start(slot)

    def _timeout(self) -> float | None:
        """Return the seconds until the next planned restart or kill. None if nothing is planned."""
        times = [slot.restarts.next_start for slot in self._slots] + [self._kill_at]
        due = [each for each in times if each is not None]
        return max(0.0, min(due) - time.monotonic()) if due else None

    def _start(self, slot: Slot) -> None:
        reading, writing = self._context.Pipe(duplex=False)
        quiet = any(each.restarts.ends or each.is_ready for each in self._slots)
        slot.process = self._context.Process(  # type: ignore[attr-defined]
            target=supervised.main, args=(self._worker, os.getpid(), writing, quiet), name="worker"
        )
        # Signals stay blocked until the child has replaced the supervisor's handlers.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
        try:
            slot.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        writing.close()
        slot.ready, slot.is_ready = reading, False
        slot.restarts.began()

    def _take_ready(self, slot: Slot) -> None:
        assert slot.ready is not None
        try:
            ready: Ready = slot.ready.recv()
        except EOFError:
            pass  # The process ended before it was ready.
        else:
            slot.is_ready, slot.refused = True, None
            if self._has_said_ready:
                logger.info("process %d is ready", slot.process.pid)
            for each in self._slots:
                if each.process is None and each.restarts.ends == 0 and not self._leaving:
                    self._start(each)
            if not self._has_said_ready and all(each.is_ready for each in self._slots):
                self._has_said_ready = True
                self._worker.say_ready(ready, [each.process.pid for each in self._slots])
        slot.ready.close()
        slot.ready = None

    def _take_end(self, slot: Slot) -> None:
        slot.process.join(0.1)
        code = slot.process.exitcode
        if code is None:
            return  # It is about to end.
        pid, was_ready = slot.process.pid, slot.is_ready
        if was_ready and code not in (0, -signal.SIGTERM, INTERRUPTED_BY_USER):
            self._requeue_rounds(pid)
        slot.process.close()
        slot.process, slot.is_ready = None, False
        if self._leaving:
            slot.left.append(code)
            return
        slot.refused = code if code > 0 and not was_ready else None
        if self._is_over():
            return
        seconds = slot.restarts.ended()
        logger.warning(
            "process %d ended (%s); restarting %s",
            pid,
            ending(code),
            f"in {seconds:.0f} s" if seconds else "now",
        )

    def _requeue_rounds(self, pid: int) -> None:
        """Start a process that requeues the rounds of a dead worker process.

        So another worker claims the rounds before their leases expire. The supervisor cannot
        requeue them itself, because it has no connection to the state server. ``pid`` was the
        process id of the worker.
        """
        process = self._context.Process(  # type: ignore[attr-defined]
            target=supervised.requeue_rounds, args=(self._worker, pid), name="requeue", daemon=True
        )
        process.start()
        self._cleanups.append(process)

    def _is_over(self) -> bool:
        """Return whether the supervisor starts no more worker processes.

        That is so during a shutdown, and if all started processes exited with an error before they
        were ready. While at least one process runs, the others are restarted, because the cause of
        their error may go away.
        """
        started = [
            slot
            for slot in self._slots
            if slot.process is not None or slot.restarts.ends or slot.refused is not None
        ]
        return self._leaving or (
            bool(started)
            and all(slot.process is None and slot.refused is not None for slot in started)
        )

    def _handle(self, number: int) -> None:
        """Begin the shutdown of the workers after a signal with this number.

        SIGQUIT and a second Ctrl-C end the workers at once. After any other signal, the workers
        finish their rounds in flight first.
        """
        self._leaving = True
        if number == signal.SIGINT:
            self._interrupts += 1
        if number == signal.SIGQUIT or self._interrupts > 1:
            self._at_once = True
            self._kill_at = self._kill_at or time.monotonic() + AT_ONCE_SECONDS
            self._send(signal.SIGQUIT)
        else:
            if number == signal.SIGINT:
                say_finishing()
            self._send(signal.SIGTERM)

    def _send(self, number: signal.Signals) -> None:
        for slot in self._slots:
            # Reading exitcode reaps an ended process, so the pid cannot belong to another one.
            if slot.process is not None and slot.process.exitcode is None:
                os.kill(slot.process.pid, number)

    def _code(self) -> int:
        if self._at_once:
            return INTERRUPTED_BY_USER
        if not self._leaving:
            return next(slot.refused for slot in self._slots if slot.refused is not None)
        # SIGTERM kills a process that has not installed its handlers yet; that is no failure.
        return (
            0
            if all(code in (0, -signal.SIGTERM) for slot in self._slots for code in slot.left)
            else INTERNAL
        )


def _listen() -> int:
    """Install handlers for the signals in HANDLED.

    Returns:
        The file descriptor of the read end of a pipe. Python writes the number of each received
        signal into this pipe.
    """
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing)
    for number in HANDLED:
        signal.signal(number, lambda *_: None)
    return reading
