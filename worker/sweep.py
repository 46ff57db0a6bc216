"""Sweeper: one thread a worker that re-enqueues what is overdue and announces that the worker lives."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from worker.calls import Calls
from worker.dispatch import Dispatcher
from worker.processes import process_name
from worker.record import SCHEMA
from worker.settings import Settings
from worker.standing import ALIVE_BEATS
from worker.store import Store, StoreUnavailable
from worker.store.keys import role_of
from worker.telemetry.switch import is_on
from worker.unplayable import JUDGED, unplayable

logger = logging.getLogger("holdfast.sweep")

#: Runs looked at in one script call, in which the server does nothing else: up to 0.1 ms each. Where there are more, calls follow at once.
BATCH = 25
#: Of an outage.
NOT_SWEPT = "could not sweep"
#: A worker that has not announced itself for so many heartbeats is forgotten.
FORGOTTEN_BEATS = 60
#: What the sweep has pushed: here the stored message, and not one that a commit has just made, is what somebody will claim by.
PUSHED = ("resent", "freed", "woken", "answered")
#: What these outcomes of the sweep mean is worth a line in the log; the others are routine.
TOLD = {
    "resent": "its message was lost and has been sent again",
    "freed": "its worker died or went silent; the round has been queued again",
    "delayed": "its worker died or went silent, not for the first time; the round will be queued again after a wait",
    "overran": "its round ignored its time limit; it will be tried again",
    "errored": "it has been ended as errored",
    "damaged": "what the server holds of it is damaged; it is no longer looked at",
}


class Sweeper:
    """Sweeps every ``settings.sweep_seconds``; every worker has one, and none is special."""

    def __init__(
        self,
        store: Store,
        dispatcher: Dispatcher,
        settings: Settings,
        worker: str,
        announcement: Callable[[], Mapping[str, Any]],
        calls: Calls | None = None,
    ) -> None:
        self._store = store
        self._dispatcher = dispatcher
        self._settings = settings
        self._worker = worker
        self._announcement = announcement
        self._calls = calls
        self._announcing = threading.Lock()
        self._stopping = threading.Event()
        self._woken = threading.Event()
        self._forfeits: deque[tuple[str, int, int, str]] = deque()
        #: Epoch, step and message of runs that the last sweep told to be unmade, for the next one.
        self._made: dict[str, tuple[str, str, str]] = {}
        self._thread = threading.Thread(target=self._sweep_forever, name="holdfast-sweep", daemon=True)

    def start(self) -> None:
        """Begin; the worker is announced before this returns, if the server answers."""
        if is_on():
            # In the thread that forks the pool's processes: one forked while another thread imports waits for that import for ever.
            import worker.telemetry.losses  # noqa: F401
        try:
            self.announce()
        except StoreUnavailable as error:
            logger.warning("not announced yet: %s", error)
        self._thread.start()

    def stop(self) -> None:
        """End in good order and withdraw the announcement; to be called once more is no harm."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        self.wake()
        self._thread.join(timeout=self._settings.sweep_seconds + 5)
        try:
            self._store.withdraw(self._worker)
        except StoreUnavailable as error:
            logger.warning("could not withdraw, the announcement will lapse: %s", error)

    def silence(self, patience: float) -> None:
        """From now on nothing is announced; what is on its way is waited for, up to ``patience`` seconds."""
        self._stopping.set()
        if self._announcing.acquire(timeout=patience):
            self._announcing.release()

    def wake(self) -> None:
        """Sweep now, not when the time for it has come."""
        self._woken.set()

    def forfeit(self, run_id: str, epoch: int, step: int, pid: int) -> None:
        """A child process of this worker died in the middle of this round: let go its lease, and sweep. Returns at once.

        (The caller is the worker's event loop. Only a worker that is leaving, and sweeps no more, does it in the loop.)
        """
        self._forfeits.append((run_id, epoch, step, process_name(pid)))
        self.wake()
        if self._stopping.is_set():
            try:
                self._let_go()
            except StoreUnavailable as error:
                logger.warning("run %s, step %d: its lease is not let go and will lapse: %s", run_id, step, error, extra={"run_id": run_id})

    def sweep(self, every: float = 0.0, soon: Sequence[str] = ()) -> list[tuple[str, str]]:
        """Look at what is due now, one batch of it; what became of each run looked at. Where there is more, it is woken for it.

        Args:
            every: seconds; where any worker swept within them, nothing is done.
            soon: runs that are looked at before they are due, a batch at most.
        """
        batch = self._store.sweep(
            lease=round(self._settings.lease_seconds * 1000),
            max_losses=self._settings.max_losses,
            max_failures=self._settings.max_attempts,
            jitter=random.random(),
            batch=BATCH,
            lengths=self._dispatcher.lengths(),
            schema=SCHEMA,
            every=None if self._made else round(every * 1000) or None,
            made=self._made,
            soon=soon,
            alive=round(ALIVE_BEATS * self._settings.heartbeat_seconds * 1000),
        )
        self._dispatcher.hand_over(batch.handed)
        if batch.calls and self._calls is not None:
            self._calls.make_late(batch.calls)
        self._quarantine_unplayable([run_id for run_id, word in batch.report if word in PUSHED])
        self._made = self._messages_of([run_id for run_id, word in batch.report if word == "unmade"])
        if self._made or len(batch.report) == BATCH:
            self.wake()
        return batch.report

    def _messages_of(self, run_ids: list[str]) -> dict[str, tuple[str, str, str]]:
        """What is to be sent of runs whose worker died while they stayed with it: nobody has written it yet."""
        made = {}
        for run_id, fields in zip(run_ids, self._store.some_fields(run_ids, ("queue", "epoch", "step")), strict=True):
            if len(fields) == 3:  # else it has been deleted meanwhile
                message = self._dispatcher.message(role_of(fields["queue"]), run_id, int(fields["epoch"]), int(fields["step"]))
                made[run_id] = (fields["epoch"], fields["step"], message.text)
        return made

    def _quarantine_unplayable(self, run_ids: list[str]) -> None:
        """End those just pushed whose stored message the guard refuses, or is another round's: it would be sent for ever."""
        for run_id, fields in zip(run_ids, self._store.some_fields(run_ids, (*JUDGED, "idem")), strict=True):
            fault = unplayable(fields, run_id)
            if fault is not None:
                error = f"run {run_id}, step {fields['step']}: {fault}; it is quarantined. Restore the server's data, or retry the run"
                [word, *_] = self._store.quarantine(
                    run_id,
                    epoch=fields["epoch"],
                    step=fields["step"],
                    message=fields["message"],
                    error=error,
                    idempotency_key=fields.get("idem"),
                )
                if word == "ok":
                    logger.error("%s", error, extra={"run_id": run_id})

    def announce(self) -> None:
        """Say that this worker lives, and what it plays."""
        with self._announcing:
            if self._stopping.is_set():
                return
            now = self._store.time()
            self._store.announce(
                self._worker, self._announcement(), now, now - round(FORGOTTEN_BEATS * self._settings.heartbeat_seconds * 1000)
            )

    def _let_go(self) -> None:
        while self._forfeits:
            forfeit = run_id, epoch, step, process = self._forfeits.popleft()
            try:
                self._store.forfeit(run_id, epoch=epoch, step=step, process=process)
            except StoreUnavailable:
                self._forfeits.appendleft(forfeit)
                raise

    def _sweep_forever(self) -> None:
        next_announcement = time.monotonic() + self._settings.heartbeat_seconds
        # Workers started together would sweep together; a random phase spreads them.
        woken = self._woken.wait(random.random() * self._settings.sweep_seconds)
        while not self._stopping.is_set():
            self._woken.clear()
            try:
                self._let_go()
                # Nobody's death waits longer for it: somebody sweeps at least every half of the time after which each would.
                report = self.sweep(0.0 if woken else self._settings.sweep_seconds / 2)
                for run_id, word in report:
                    if word in TOLD:
                        logger.warning("run %s: %s", run_id, TOLD[word], extra={"run_id": run_id})
                if report and is_on():
                    from worker.telemetry.losses import tell_losses

                    tell_losses(self._store, report)
                if time.monotonic() >= next_announcement:
                    next_announcement = time.monotonic() + self._settings.heartbeat_seconds
                    self.announce()
                self._store.outage.passed(NOT_SWEPT)
            except StoreUnavailable as error:
                self._store.outage.failed(NOT_SWEPT, error)
            except BaseException:  # a flow's own code as well, which is asked what it is
                # The thread must outlive any surprise: it is what recovers the others.
                logger.exception("a sweep failed, trying again")
            woken = self._woken.wait(self._settings.sweep_seconds)
