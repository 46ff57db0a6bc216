"""The heartbeat: a thread per process that extends leases and receives stop requests."""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from perdure.flows.core.cancellation import Signals
from perdure.worker.store import Store, StoreUnavailable

logger = logging.getLogger("perdure.heartbeat")

#: Seconds a round may continue after its lease is lost, until it counts as lingering. It is time to
#: end a command and clean up.
LINGER_SECONDS = 10.0
#: Log text of the outage.
NOT_EXTENDED = "the leases of rounds could not be extended"


@dataclass(eq=False)
class Lease:
    """The right to commit one round, for as long as the heartbeat extends it.

    Attributes:
        time_limit: The round's time limit in seconds. None: no limit.
        ends: When the time limit is over (``time.monotonic``).
        signals: Where the round sees that it is cancelled, or that a stop is requested.
        timed_out: Whether the time limit is over.
        lost: Whether the lease is lost, so that the round's result cannot be committed.
    """

    run_id: str
    token: str
    claim: str
    time_limit: float | None = None
    ends: float | None = None
    signals: Signals = field(default_factory=Signals)
    timed_out: bool = False
    lost: bool = False
    #: When (monotonic seconds) a round whose lease is lost must have returned.
    patience: float | None = None
    #: Error of the store that makes the round's result worthless, even if the node caught it.
    broken: Exception | None = None


class Heartbeat:
    """Extends the leases of this process every ``interval`` seconds.

    The thread starts with the first lease. So it runs in the process that runs the rounds, also in
    a forked child.

    Args:
        lingers: Called with a lost lease if its round has not returned after ``LINGER_SECONDS``. It
            is called once for each lease.
        beside: Called with the store after each successful heartbeat, for other writes of this
            process that are due about once a second.
    """

    def __init__(
        self,
        store: Store,
        interval: float,
        lingers: Callable[[Lease], None] = lambda lease: None,
        beside: Callable[[Store], None] = lambda store: None,
    ) -> None:
        self._store = store
        self._interval = interval
        self._lingers = lingers
        self._beside = beside
        self._thread: threading.Thread | None = None
        self._forget_parent()

    def hold(self, run_id: str, token: str, claim: str, time_limit: float | None) -> Lease:
        """Return the lease of a claimed round. From now on, the heartbeat extends it.

        Args:
            token: The token of the claim.
            claim: The id of the claim.
            time_limit: Seconds after which the round is cancelled. None: no limit.
        """
        if os.getpid() != self._pid:
            self._forget_parent()
        lease = Lease(run_id, token, claim)
        with self._lock:
            self._leases.add(lease)
            self._start()
        if time_limit is not None:
            self.limit(lease, time_limit)
        return lease

    def limit(self, lease: Lease, seconds: float) -> None:
        """Cancel the round of a lease after ``seconds``, unless it has an earlier limit."""
        ends = time.monotonic() + seconds
        with self._changed:
            if lease.ends is None or ends < lease.ends:
                lease.time_limit, lease.ends = seconds, ends
                self._changed.notify()

    def end(self) -> None:
        """End the thread that extends the leases, and wait until the thread has ended.

        No round may be in progress. The next lease starts another thread. In a forked process that
        holds no lease yet, nothing happens.
        """
        if os.getpid() != self._pid:
            return
        with self._changed:
            thread, self._thread = self._thread, None
            self._changed.notify()
        if thread is not None:
            thread.join()

    def release(self, lease: Lease) -> None:
        """Stop extending the lease of a round that is over.

        Nothing is sent to the server.
        """
        with self._lock:
            self._leases.discard(lease)

    @property
    def leases(self) -> list[Lease]:
        """The leases of this process, one for each round."""
        with self._lock:
            return list(self._leases)

    def __len__(self) -> int:
        """Return the number of leases of this process."""
        return len(self._leases)

    def beat(self) -> None:
        """Extend all leases once.

        Tell each round if a stop is requested, and cancel a round whose lease is lost.

        Raises:
            StoreUnavailable: The server does not answer.
        """
        leases = self.leases
        now = time.monotonic()
        limits = [
            None if lease.ends is None else round(1000 * max(0.0, lease.ends - now))
            for lease in leases
        ]
        replies = self._store.rounds.extend(
            [(lease.run_id, lease.token, _progress(lease)) for lease in leases],
            limits,
            [lease.claim for lease in leases],
        )
        for lease, reply in zip(leases, replies, strict=True):
            if reply == "stop":
                lease.signals.stop_requested = True
            elif reply in ("lost", "damaged"):
                if not lease.lost:
                    lease.lost, lease.patience = True, now + LINGER_SECONDS
                lease.signals.cancelled.set()

    def _forget_parent(self) -> None:
        """Forget the leases that a fork copied from its parent.

        The fork does not copy the thread that extends them.
        """
        self._pid = os.getpid()
        self._leases: set[Lease] = set()
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._thread = None

    def _start(self) -> None:
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(
                target=self._beat_forever, name="perdure-heartbeat", daemon=True
            )
            self._thread.start()

    def _beat_forever(self) -> None:
        next_beat = time.monotonic() + self._interval
        while True:
            with self._changed:
                if self._thread is not threading.current_thread():
                    return
                limits = [
                    lease.ends
                    for lease in self._leases
                    if lease.ends is not None and not lease.timed_out
                ]
                self._changed.wait(max(0.0, min([next_beat, *limits]) - time.monotonic()))
            now = time.monotonic()
            for lease in self.leases:
                if lease.ends is not None and now >= lease.ends and not lease.timed_out:
                    lease.timed_out = True
                    lease.signals.cancelled.set()
            if now < next_beat:
                continue
            next_beat = now + self._interval
            for lease in self.leases:
                if lease.patience is not None and now >= lease.patience:
                    lease.patience = None
                    self._lingers(lease)
            try:
                self.beat()
                self._store.outage.passed(NOT_EXTENDED)
                self._beside(self._store)
            except StoreUnavailable as error:
                self._store.outage.failed(NOT_EXTENDED, error)
            except BaseException:
                # The thread must survive any error: without it every lease of this process would
                # lapse.
                logger.exception("a heartbeat failed, trying again")


def _progress(lease: Lease) -> str:
    progress = lease.signals.progress
    return "" if progress is None else json.dumps(dict(progress), default=str)
