"""Supervisor: several workers, each in a process of its own, under one process that starts them and leaves with them.

It plays nothing and holds no connection. Its processes stay in its process group, so a Ctrl-C of the terminal reaches all of
them; they leave that to it, and it tells each one what a lone worker would have heard (worker/cli/part.py).
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

from worker.cli import part
from worker.cli.exits import INTERNAL
from worker.cli.leaving import INTERRUPTED, say_finishing
from worker.cli.worker import Play, Ready
from worker.logs import set_up_logging

logger = logging.getLogger("holdfast.processes")

#: Fork: the processes share what was imported once, which is half their memory and three quarters of their start. That is safe where
#: nothing but modules is there to be copied: the supervisor has one thread and no connection, and imports nobody else's flows, as their
#: modules may bring threads and connections along; each process imports those itself. macOS's own libraries do not live through a
#: fork, so there each process is a new one.
METHOD = "spawn" if platform.system() == "Darwin" else "fork"
#: What every worker imports.
IMPORTED = (
    "celery.app.control", "celery.apps.worker", "celery.concurrency.solo", "celery.concurrency.thread", "celery.worker.autoscale",
    "celery.worker.components", "celery.worker.consumer", "celery.worker.strategy", "flows.controllers.model", "flows.executors.mcp",
    "flows.library.bisect", "flows.library.countdown", "flows.library.question", "flows.written.reading", "kombu.transport.redis",
    "worker.app", "worker.cli.leaving", "worker.consumer", "worker.doctor.at_start", "worker.guard", "worker.request",
)  # fmt: skip
#: Seconds until another process takes the place of one that died: none the first time, then twice as long each time.
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
#: A process that worked for so many seconds is no part of a loop of deaths any more.
SETTLED = 60.0
#: Seconds that a process gets to let its leases go when it is to leave at once.
AT_ONCE = 5.0
HEARD = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)


def pause(deaths: int) -> float:
    """Seconds to wait after so many deaths in a row."""
    return 0.0 if deaths <= 1 else min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(deaths - 2, 16))


@dataclass(eq=False)
class Place:
    """The place of one process: what is in it, and how it went there. Times are monotonic seconds."""

    process: Any = None
    ready: connection.Connection | None = None
    is_ready: bool = False
    started: float = 0.0
    deaths: int = 0
    next_start: float | None = None
    #: The code of the last process, if it left by itself before it was ready.
    refused: int | None = None
    #: How each process ended that had been asked to leave.
    left: list[int] = field(default_factory=list)


class Supervisor:
    """Keeps ``count`` processes of ``play`` alive until it is told to leave.

    Args:
        play: what each of them plays.
        count: how many, at least 2.
        with_stdin: leave, warm, when standard input ends.
    """

    def __init__(self, play: Play, count: int, with_stdin: bool = False) -> None:
        self._play = play
        self._places = [Place() for _ in range(count)]
        self._context = multiprocessing.get_context(METHOD)
        self._watched: list[int] = [0] if with_stdin else []
        self._said_ready = False
        self._interrupts = 0
        self._leaving = False
        self._at_once = False
        self._kill_at: float | None = None
        #: Those that do what is due for a process that died.
        self._mourning: list[Any] = []

    def run(self) -> int:
        """Until all processes have ended; returns the exit code of the command."""
        set_up_logging(self._play.settings.log_format, several=True)
        if METHOD == "fork":
            for name in IMPORTED:
                import_module(name)
            gc.collect()
            gc.freeze()  # a collection in a process would write to, and so copy, all that it shares with the others
        heard = _listen()
        try:
            self._start(self._places[0])  # the others when it is ready: what is wrong is told once
            return self._watch(heard)
        except BaseException:
            self._tell(signal.SIGTERM)  # Python waits for them, then ends
            raise

    def _watch(self, heard: int) -> int:
        while True:
            living = [place for place in self._places if place.process is not None]
            if not living and self._is_over():
                return self._code()
            talking = [place.ready for place in living if place.ready is not None]
            sentinels = [place.process.sentinel for place in living]
            mourning = [process.sentinel for process in self._mourning]
            woken = connection.wait([heard, *self._watched, *talking, *sentinels, *mourning], self._patience())
            if heard in woken:
                for number in os.read(heard, 4096):
                    self._hear(number)
            if 0 in woken and not os.read(0, 4096):
                self._watched.clear()
                self._hear(signal.SIGTERM)
            for place in living:
                if place.ready in woken:
                    self._take_ready(place)
                if place.process.sentinel in woken:
                    self._take_end(place)
            for process in [each for each in self._mourning if each.sentinel in woken]:
                process.join(0.1)
                self._mourning.remove(process)
            self._act()

    def _act(self) -> None:
        """Start and kill what it is time for."""
        now = time.monotonic()
        if self._kill_at is not None and now >= self._kill_at:
            self._tell(signal.SIGKILL)
        for place in self._places:
            if place.next_start is not None and now >= place.next_start and not self._leaving:
                self._start(place)

    def _patience(self) -> float | None:
        """Seconds until `_act` has something to do; None for never."""
        times = [place.next_start for place in self._places] + [self._kill_at]
        due = [each for each in times if each is not None]
        return max(0.0, min(due) - time.monotonic()) if due else None

    def _start(self, place: Place) -> None:
        reading, writing = self._context.Pipe(duplex=False)
        quiet = any(each.deaths or each.is_ready for each in self._places)
        place.process = self._context.Process(target=part.main, args=(self._play, os.getpid(), writing, quiet), name="worker")  # type: ignore[attr-defined]
        # A signal that comes before the process can tell whose it is waits until it can.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, HEARD)
        try:
            place.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        writing.close()
        place.ready, place.is_ready, place.started, place.next_start = reading, False, time.monotonic(), None

    def _take_ready(self, place: Place) -> None:
        assert place.ready is not None
        try:
            told: Ready = place.ready.recv()
        except EOFError:
            pass  # it ended before
        else:
            place.is_ready, place.refused = True, None
            if self._said_ready:
                logger.info("process %d is ready", place.process.pid)
            for each in self._places:
                if each.process is None and each.deaths == 0 and not self._leaving:
                    self._start(each)
            if not self._said_ready and all(each.is_ready for each in self._places):
                self._said_ready = True
                self._play.say_ready(told, [each.process.pid for each in self._places])
        place.ready.close()
        place.ready = None

    def _take_end(self, place: Place) -> None:
        place.process.join(0.1)
        code = place.process.exitcode
        if code is None:
            return  # not quite
        pid, was_ready = place.process.pid, place.is_ready
        if was_ready and code not in (0, -signal.SIGTERM, INTERRUPTED):
            self._mourn(pid)
        place.process.close()
        place.process, place.is_ready = None, False
        if self._leaving:
            place.left.append(code)
            return
        place.refused = code if code > 0 and not was_ready else None
        if self._is_over():
            return
        place.deaths = place.deaths + 1 if time.monotonic() - place.started < SETTLED else 1
        seconds = pause(place.deaths)
        place.next_start = time.monotonic() + seconds
        how = f"exit code {code}" if code >= 0 else f"signal {-code}"
        logger.warning("process %d ended (%s); another takes its place %s", pid, how, f"in {seconds:.0f} s" if seconds else "now")

    def _mourn(self, pid: int) -> None:
        """Have another process free the leases of one that died, so that nothing waits for their end. This one has no connection."""
        process = self._context.Process(target=part.mourn_process, args=(self._play, pid), name="mourner", daemon=True)  # type: ignore[attr-defined]
        process.start()
        self._mourning.append(process)

    def _is_over(self) -> bool:
        """Whether no process is to be started any more. While others work, one that refuses to start is tried again now and then: what
        it refuses may be mended; but where all refuse, it is for whoever started this to know."""
        here = [place for place in self._places if place.process is not None or place.deaths or place.refused is not None]
        return self._leaving or (bool(here) and all(place.process is None and place.refused is not None for place in here))

    def _hear(self, number: int) -> None:
        """Pass on a signal as a lone worker would take it."""
        self._leaving = True
        if number == signal.SIGINT:
            self._interrupts += 1
        if number == signal.SIGQUIT or self._interrupts > 1:
            self._at_once = True
            self._kill_at = self._kill_at or time.monotonic() + AT_ONCE
            self._tell(signal.SIGQUIT)
        else:
            if number == signal.SIGINT:
                say_finishing()
            self._tell(signal.SIGTERM)

    def _tell(self, number: signal.Signals) -> None:
        for place in self._places:
            if place.process is not None and place.process.exitcode is None:  # asking for its exit code waits for it: the pid is its own
                os.kill(place.process.pid, number)

    def _code(self) -> int:
        if self._at_once:
            return INTERRUPTED
        if not self._leaving:
            return next(place.refused for place in self._places if place.refused is not None)
        # SIGTERM ends a process that has not begun to listen.
        return 0 if all(code in (0, -signal.SIGTERM) for place in self._places for code in place.left) else INTERNAL


def _listen() -> int:
    """A descriptor from which the numbers of the signals can be read that come from now on."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing)
    for number in HEARD:
        signal.signal(number, lambda *_: None)
    return reading
