"""The sweeper: a thread in each worker that requeues overdue runs and announces the worker."""

from __future__ import annotations

import logging
import math
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from perdure.worker.domain.fleet import ALIVE_BEATS
from perdure.worker.domain.record import SCHEMA
from perdure.worker.fork_gate import ForkGate
from perdure.worker.ids import process_name
from perdure.worker.messaging.callbacks import Callbacks
from perdure.worker.messaging.follow_ups import FollowUps
from perdure.worker.messaging.publisher import Publisher
from perdure.worker.settings import Settings
from perdure.worker.store import Store, StoreUnavailable
from perdure.worker.store.keys import role_of
from perdure.worker.tracing.switch import is_on

#: The fields of a run that ``unplayable`` reads.
JUDGED = ("phase", "schema", "queue", "message", "epoch", "step")


def unplayable(fields: Mapping[str, str], run_id: str) -> str | None:
    """Return why no worker could ever claim this queued run with its stored message.

    Only stored fields are checked. So a forged message on a queue cannot make a good run look
    damaged.

    Args:
        fields: The run's fields, at least those in ``JUDGED`` that it has.

    Returns:
        None if a worker could claim the run, if the run is not queued, or if a newer version of
        Perdure wrote it.
    """
    # Only workers import this much of kombu.
    from perdure.worker.messaging.message import InvalidMessage, stored_round

    schema, message = fields.get("schema", ""), fields.get("message")
    newer = schema.isdecimal() and len(schema) < 16 and int(schema) > int(SCHEMA)
    if (
        fields.get("phase") != "queued"
        or message is None
        or newer
        or not {"epoch", "step"} <= set(fields)
    ):
        # The run has moved on, or a newer worker wrote it, in a form that this one does not know.
        return None
    try:
        stored = stored_round(message, fields.get("queue", ""))
    except InvalidMessage as error:
        return f"its stored message is not a round's message ({error})"
    expected = (run_id, fields.get("epoch"), fields.get("step"))
    if tuple(map(str, stored)) != expected:
        stored_text, expected_text = (" ".join(map(str, each)) for each in (stored, expected))
        return (
            "its stored message is that of another round "
            f"(run, epoch and step are {stored_text}, expected {expected_text})"
        )
    return None


logger = logging.getLogger("perdure.sweep")

#: Runs per script call, up to 0.1 ms each, in which the server does nothing else. If there are
#: more, further calls follow at once.
BATCH = 25
#: Script calls of one exchange while more runs are due than a call examines. In a busy process,
#: this thread waits for its turn before and after each exchange.
AT_ONCE = 4
#: Log text of the outage.
NOT_SWEPT = "could not sweep"
#: If a run is due before the next sweep, the worker that swept last sweeps at that time, but not
#: more often than this in ``sweep_seconds``.
EARLY = 5
#: Heartbeats without an announcement after which a worker is forgotten.
FORGOTTEN_BEATS = 60
#: Seconds, or a heartbeat if that is shorter, until an announcement that failed is tried again.
RETRY_SECONDS = 1.0
#: Outcomes in which the sweep pushed the stored message. A worker claims with that
#: message, not with a message that a commit has just built.
PUSHED = ("resent", "freed", "woken", "answered")
#: Outcomes of the sweep that are logged. The others are routine.
LOGGED = {
    "resent": "its message was lost and has been sent again",
    "freed": "its worker died or went silent; the round has been queued again",
    "delayed": (
        "its worker died or went silent, not for the first time; "
        "the round will be queued again after a wait"
    ),
    "overran": "its round ignored its time limit; it will be retried",
    "damaged": "what the server holds of it is damaged; the sweep ignores it from now on",
}


class Sweeper:
    """Sweeps every ``settings.sweep_seconds``, and when the next run is due.

    Each worker has one, and all do the same work.

    Args:
        worker: The worker's name.
        announcement: Returns the worker's announcement.
        callbacks: Publishes the overdue callbacks of ended runs. None: the sweep of another worker
            publishes them.
    """

    def __init__(
        self,
        store: Store,
        publisher: Publisher,
        settings: Settings,
        worker: str,
        announcement: Callable[[], Mapping[str, Any]],
        callbacks: Callbacks | None = None,
    ) -> None:
        self._store = store
        self._publisher = publisher
        self._settings = settings
        self._worker = worker
        self._announcement = announcement
        self._callbacks = callbacks
        self._follow_ups = FollowUps(store, publisher)
        self._announcing = threading.Lock()
        self._gate = ForkGate()
        #: The time (of the monotonic clock) at which the next announcement is due.
        self._next_announcement = 0.0
        self._stopping = threading.Event()
        self._woken = threading.Event()
        self._forfeits: deque[tuple[str, int, int, str]] = deque()
        #: Epoch, step and message of runs that the last sweep reported as ``unmade`` (without a
        #: stored message), for the next sweep.
        self._made: dict[str, tuple[str, str, str]] = {}
        #: The time (of the monotonic clock) at which the next run is due, as the last sweep saw it.
        self._next_due = math.inf
        #: How many batches the next sweep processes in one exchange.
        self._batches = 1
        self._thread = threading.Thread(
            target=self._sweep_forever, name="perdure-sweep", daemon=True
        )

    def start(self) -> None:
        """Announce this worker, and start the thread.

        If the server does not answer, this is logged. The thread starts nevertheless, and announces
        the worker later.
        """
        if is_on():
            # Import in the thread that forks the pool's processes. A process forked while another
            # thread imports waits for that import for ever.
            import perdure.worker.tracing.round_spans  # noqa: F401
        try:
            self.announce()
        except StoreUnavailable as error:
            logger.warning("not announced yet: %s", error)
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread, and remove the announcement.

        Further calls do nothing. If the server does not answer, the announcement expires by itself.
        """
        if self._stopping.is_set():
            return
        self._stopping.set()
        self.wake()
        self._thread.join(timeout=self._settings.sweep_seconds + 5)
        try:
            self._store.fleet.withdraw(self._worker)
        except StoreUnavailable as error:
            logger.warning("could not withdraw, the announcement will lapse: %s", error)

    def silence(self, patience: float) -> None:
        """Stop the announcements of this worker, and its sweeps.

        It does not remove the last announcement.

        Args:
            patience: Seconds to wait for the end of an announcement that is in progress.
        """
        self._stopping.set()
        if self._announcing.acquire(timeout=patience):
            self._announcing.release()

    def wake(self) -> None:
        """Make the thread sweep now."""
        self._woken.set()

    def release_dead_lease(self, run_id: str, epoch: int, step: int, pid: int) -> None:
        """End a dead child process's lease. Requeue its round.

        The caller is the worker's event loop, so the sweeper's thread does the work. In a worker
        that shuts down and no longer sweeps, the caller's thread does it. If the server does not
        answer then, a warning is logged, and the lease ends by itself.

        Args:
            pid: The id of the dead process.
        """
        self._forfeits.append((run_id, epoch, step, process_name(pid)))
        self.wake()
        if self._stopping.is_set():
            try:
                self._release_forfeits()
            except StoreUnavailable as error:
                logger.warning(
                    "run %s, step %d: its lease could not be released and will lapse: %s",
                    run_id,
                    step,
                    error,
                    extra={"run_id": run_id},
                )

    def sweep(self, every: float = 0.0, soon: Sequence[str] = ()) -> list[tuple[str, str]]:
        """Examine the runs that are due, and return id and outcome of each.

        For example, a lease that was not extended ends, and a lost message is published again. If
        more runs are due, the sweeper's thread is woken, and its next sweep examines several
        batches.

        Args:
            every: Do nothing if any worker swept within these seconds. 0: always sweep.
            soon: Ids of runs to examine before they are due, at most one batch.

        Raises:
            StoreUnavailable: The server does not answer.
        """
        self._next_due = math.inf
        batch = self._store.fleet.sweep(
            lease=round(self._settings.lease_seconds * 1000),
            max_losses=self._settings.max_losses,
            max_failures=self._settings.max_attempts,
            jitter=random.random(),
            batch=BATCH,
            lengths=self._publisher.lengths(),
            schema=SCHEMA,
            every=None if self._made else round(every * 1000) or None,
            made=self._made,
            soon=soon,
            alive=round(ALIVE_BEATS * self._settings.heartbeat_seconds * 1000),
            times=self._batches,
        )
        if batch.due_in is not None:
            self._next_due = time.monotonic() + batch.due_in / 1000
        self._publisher.publish(batch.handed)
        if batch.calls and self._callbacks is not None:
            self._callbacks.make_late(batch.calls)
        self._quarantine_unplayable([run_id for run_id, word in batch.report if word in PUSHED])
        self._made = self._messages_of(batch.unmade)
        self._wake_parked(batch.unmade)
        if batch.follow_ups:
            self._follow_ups.do(batch.follow_ups)
        more = len(batch.report) >= BATCH * self._batches
        self._batches = AT_ONCE if more else 1
        if self._made or more:
            self.wake()
        return batch.report

    def _messages_of(
        self, unmade: Mapping[str, tuple[str, ...]]
    ) -> dict[str, tuple[str, str, str]]:
        """Build the messages of runs that are due and have no stored message.

        Such a run waited for a time, or had affinity to a worker that died.

        Args:
            unmade: Queue, epoch, step and phase of each run, by run id.

        Returns:
            Epoch, step and message of each run, by run id.
        """
        made = {}
        for run_id, (queue, epoch, step, _phase) in unmade.items():
            message = self._publisher.message(role_of(queue), run_id, int(epoch), int(step))
            made[run_id] = (epoch, step, message.text)
        return made

    def _wake_parked(self, unmade: Mapping[str, tuple[str, ...]]) -> None:
        """Queue parked runs whose messages have just been built.

        The next sweep examines the other runs. If it had to examine the parked runs too, ten
        thousand runs that wake together would be examined twice.

        Args:
            unmade: Queue, epoch, step and phase of each run, by run id.
        """
        parked = {
            run_id: message
            for run_id, message in self._made.items()
            if unmade[run_id][-1] == "parked"
        }
        for run_id, (word, to_publish) in zip(
            parked, self._store.signals.wake_all(parked), strict=True
        ):
            self._publisher.publish(to_publish)
            if word == "queued":
                del self._made[run_id]

    def _quarantine_unplayable(self, run_ids: list[str]) -> None:
        """Quarantine the runs whose stored message can never be claimed.

        The message is invalid, or belongs to another round. The sweep has just published it, and
        would publish it again for ever.

        Args:
            run_ids: The runs whose messages the sweep published.
        """
        for run_id, fields in zip(
            run_ids, self._store.reads.some_fields(run_ids, (*JUDGED, "idem")), strict=True
        ):
            fault = unplayable(fields, run_id)
            if fault is not None:
                error = (
                    f"run {run_id}, step {fields['step']}: {fault}; it is quarantined. "
                    "Restore the server's data, or retry the run"
                )
                [word, *_] = self._store.rounds.quarantine(
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
        """Announce this worker and the flows that it runs.

        After ``stop`` or ``silence``, nothing happens.

        Raises:
            StoreUnavailable: The server does not answer. The sweeper's thread tries again soon.
        """
        with self._announcing:
            if self._stopping.is_set():
                return
            every = self._settings.heartbeat_seconds
            self._next_announcement = time.monotonic() + min(every, RETRY_SECONDS)
            now = self._store.time()
            self._store.fleet.announce(
                self._worker,
                self._announcement(),
                now,
                now - round(FORGOTTEN_BEATS * every * 1000),
            )
            self._next_announcement = time.monotonic() + every

    def _release_forfeits(self) -> None:
        while self._forfeits:
            forfeit = run_id, epoch, step, process = self._forfeits.popleft()
            try:
                self._store.rounds.release_dead_lease(
                    run_id, epoch=epoch, step=step, process=process
                )
            except StoreUnavailable:
                self._forfeits.appendleft(forfeit)
                raise

    def _sweep_forever(self) -> None:
        # Workers started together would sweep together; a random phase spreads them.
        every = self._settings.sweep_seconds
        next_sweep, next_early = time.monotonic() + random.random() * every, math.inf
        while True:
            due = min(next_sweep, next_early, self._next_announcement)
            self._woken.wait(max(0.0, due - time.monotonic()))
            if self._stopping.is_set():
                return
            woken = self._woken.is_set()
            if woken:
                self._woken.clear()
            early = woken or time.monotonic() >= next_early
            sweeps = early or time.monotonic() >= next_sweep
            with self._gate:
                self._work(sweeps, 0.0 if early else every / 2)
            if sweeps:
                next_sweep = time.monotonic() + every
                next_early = max(self._next_due, time.monotonic() + every / EARLY)

    def _work(self, sweeps: bool, every: float) -> None:
        """Sweep if ``sweeps`` is true, and announce the worker if that is due.

        An error is logged, not raised.

        Args:
            every: Skip the sweep if any worker swept within these seconds.
        """
        try:
            if sweeps:
                self._release_forfeits()
                self._log(self.sweep(every))
            if time.monotonic() >= self._next_announcement:
                self.announce()
            self._store.outage.passed(NOT_SWEPT)
        except StoreUnavailable as error:
            self._store.outage.failed(NOT_SWEPT, error)
        except BaseException:  # an announcement runs code of flows, too
            # The thread must survive any error: it recovers the runs of the others.
            logger.exception("a sweep failed, trying again")

    def _log_errored(self, run_ids: list[str]) -> None:
        """Log the runs that a sweep ended as errored.

        They lost too many workers, failed too often, or passed their deadline. The line has the
        run's error text, because there is no exception.
        """
        try:
            records = self._store.reads.some_fields(run_ids, ("flow", "error", "current_node"))
        except StoreUnavailable as error:
            # The runs have ended already, and no later sweep reports them.
            logger.error("ended errored: %s (their errors cannot be read: %s)", run_ids, error)
            raise
        for run_id, fields in zip(run_ids, records, strict=True):
            flow = fields.get("flow", "?")
            logger.error(
                "run %s of flow %s ended errored: %s",
                run_id,
                flow,
                fields.get("error", "?"),
                extra={"run_id": run_id, "flow": flow, "node": fields.get("current_node")},
            )

    def _log(self, report: Sequence[tuple[str, str]]) -> None:
        """Log the outcomes of a sweep, and record its lost rounds as trace spans.

        Args:
            report: Run id and outcome of each examined run.
        """
        for run_id, word in report:
            if word in LOGGED:
                logger.warning("run %s: %s", run_id, LOGGED[word], extra={"run_id": run_id})
        errored = [run_id for run_id, word in report if word == "errored"]
        if errored:
            self._log_errored(errored)
        if report and is_on():
            from perdure.worker.tracing.round_spans import tell_losses

            tell_losses(self._store, report)
