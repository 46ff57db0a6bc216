"""The fast path: prefetch, affinity and the CPU limiter together.

Replaces: the separate claim of a round, and its plain commit, if a `Handoff` makes them
unnecessary.

Worth: see ``prefetch``, ``affinity`` and ``cpu_limiter``.

Switch off: the setting ``fetch`` (``PERDURE_FETCH=false``).

Private parts used: none.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from perdure.worker.domain.record import SCHEMA
from perdure.worker.engine.commit import Committer
from perdure.worker.engine.drain import Drain
from perdure.worker.engine.fast.affinity import STAY_SECONDS, commit_and_continue
from perdure.worker.engine.fast.cpu_limiter import PATIENCE, CpuLimiter
from perdure.worker.engine.fast.prefetch import Prefetcher
from perdure.worker.engine.fast_path import CommitResult, RoundCommit
from perdure.worker.engine.rounds import new_claim
from perdure.worker.messaging.message_builder import Sender, sender_within
from perdure.worker.store import Claim, Prefetched, PrefetchRequest, Store, StoreUnavailable

logger = logging.getLogger("perdure.rounds")

#: Seconds after which a leased round that has not begun reads its run's stop and lease again. A
#: round that was claimed by a commit begins within a fraction of a millisecond, unless it waits for
#: a CPU slot or for the interpreter.
RECHECK_AFTER = 0.005


class FastRounds:
    """The shared parts of this process's fast paths.

    Args:
        flows: The names of the flows that the worker runs.
        owner: The worker's name.
        lease: Seconds of the lease on a prefetched round.
        drain: Whether the worker shuts down.
        in_flight: Returns how many rounds the process runs now.
    """

    def __init__(
        self,
        store: Store,
        committer: Committer,
        flows: Iterable[str],
        owner: str,
        lease: float,
        drain: Drain,
        in_flight: Callable[[], int],
    ) -> None:
        self.store = store
        self.committer = committer
        self.lease = lease
        self._lease_ms = round(lease * 1000)
        self.drain = drain
        self.prefetcher = Prefetcher()
        self.cpu_limiter = CpuLimiter()
        self._flows = flows
        self._owner = owner
        self._in_flight = in_flight

    def handoff(
        self,
        claim: Claim | None = None,
        *,
        until: float | None = None,
        since: float | None = None,
        task: tuple[str, str | None] | None = None,
    ) -> Handoff:
        """Build the fast path for the round of a received or prefetched message.

        Args:
            claim: The round's claim, if a commit of this process has claimed the round. None: the
                round is not claimed yet.
            until: When the run has to leave this worker (``time.monotonic``). None:
                ``STAY_SECONDS`` from now, because this is the run's first round here.
            since: When this process got the claim (``time.monotonic``). None: now. Without a claim,
                it has no effect.
            task: Id and root id of the message's Celery task. None: the caller sets
                ``Handoff.task`` later.
        """
        now = time.monotonic()
        return Handoff(
            self,
            claim,
            now + STAY_SECONDS if until is None else until,
            now if since is None else since,
            task,
        )

    def prefetch_request(self) -> PrefetchRequest | None:
        """Build the prefetch request for the next commit.

        It may be the commit of any round in this process.

        Returns:
            None if the commit must not prefetch: the worker shuts down, or prefetch is off or
            skipped.
        """
        if self.drain.is_on():
            return None
        queues = self.prefetcher.queues(self._in_flight())
        if not queues:
            return None
        return PrefetchRequest(
            queues, new_claim(), self._owner, self._lease_ms, self._flows, SCHEMA
        )

    def keep(self, handoff: Handoff, prefetched: Prefetched) -> None:
        """Store a prefetched message in the handoff of the round that prefetched it.

        It is delivered when the message of that round is acknowledged.
        """
        handoff.prefetched, handoff.since = prefetched, time.monotonic()
        self.prefetcher.holds(handoff)


@dataclass(slots=True, eq=False)
class Handoff:
    """The fast path for the round of one message that this process received.

    Attributes:
        rounds: The parts that all fast paths of this process share.
        claim: The round's claim, if a commit of this process has claimed the round. None: it is not
            claimed yet.
        until: When the run has to leave this worker (``time.monotonic``).
        since: When this process got the claim (``time.monotonic``).
        task: Id and root id of the message's Celery task. None if they are not known.
        prefetched: The next message, which the commit of this round prefetched. None if it
            prefetched none.
    """

    rounds: FastRounds
    claim: Claim | None
    until: float
    since: float
    task: tuple[str, str | None] | None = None
    prefetched: Prefetched | None = field(default=None)

    def take_claim(self) -> Claim | None:
        """Return the round's claim, after a wait for a CPU slot if the round needs one.

        Only a round of a run that kept this worker needs a slot, and only if the round is probably
        brief. For any other round, this thread frees its slot.

        Returns:
            None if the round is not claimed yet.
        """
        claim, limiter = self.claim, self.rounds.cpu_limiter
        if (
            claim is not None
            and claim.carried_over
            and limiter.is_brief(claim.fields["flow"], claim.fields["current_node"])
        ):
            # The lease is not extended while we wait, so the wait is capped at a quarter of it.
            # Waiting does not count against the run's time slice.
            self.until += limiter.enter(min(PATIENCE, self.rounds.lease / 4))
        else:
            limiter.leave()
        return claim

    def is_wanted(self) -> bool:
        """Return whether the round may begin.

        If the claim is older than ``RECHECK_AFTER``, the state server is asked. Then the round may
        begin only if its claim still holds the lease and no stop is requested. It may not if the
        server does not answer.
        """
        claim = self.claim
        if claim is None or time.monotonic() - self.since <= RECHECK_AFTER:
            return True
        run_id = claim.fields["id"]
        try:
            return self.rounds.store.reads.holds(run_id, claim.token, claim.id)
        except StoreUnavailable as error:
            logger.warning(
                "run %s: its round waited, and the server cannot confirm that it is still wanted; "
                "not begun: %s",
                run_id,
                error,
            )
            return False

    def sender(self) -> Sender | None:
        """Return the Celery ids of this round's task.

        The next message names them as its sender.

        Returns:
            None if they are not known.
        """
        return None if self.task is None else sender_within(*self.task)

    def commit(self, commit: RoundCommit) -> CommitResult | None:
        """Commit the round, and prefetch the next message or lease the run's next round.

        One write does both.

        Returns:
            None if nothing was written, because the commit must not prefetch. The round must be
            committed with ``Committer.write``.
        """
        rounds, fields = self.rounds, commit.record.fields
        rounds.cpu_limiter.took(fields["flow"], fields["current_node"], commit.took)
        request = rounds.prefetch_request()
        if request is None:
            return None
        result = None
        if time.monotonic() < self.until:
            result = commit_and_continue(rounds.store, rounds.committer, commit, request)
        result = result or rounds.committer.write(commit, request)
        if result.prefetched is not None:
            rounds.keep(self, result.prefetched)
        return result

    def take_prefetched(self) -> tuple[Prefetched, Handoff] | None:
        """Return the prefetched message, and its round's fast path.

        The message is removed from this handoff.

        Returns:
            None if nothing was prefetched.
        """
        prefetched, self.prefetched = self.prefetched, None
        if prefetched is None:
            return None
        self.rounds.prefetcher.delivers(self)
        claim = prefetched.claim
        if claim is not None and claim.carried_over:
            return prefetched, Handoff(self.rounds, claim, self.until, self.since)
        return prefetched, self.rounds.handoff(claim, since=self.since)
