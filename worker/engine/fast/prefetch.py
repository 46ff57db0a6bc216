"""Prefetch: the commit of a round pops the worker's next message, and claims its run.

Replaces: BRPOP by kombu's event loop, and the separate claim. The message goes through Celery's own
consumer (strategy, request, pool, tracing, signals), as if the broker had delivered it
(``worker/runtime/fast/delivery.py``). ``docs/internals/decisions/0019-the-commit-fetches.md`` has
the rules.

Worth: with prefetch and affinity, a worker runs 4.9 x as many rounds a second as plain Celery on
prefork. Without them it runs 1.6 x as many (docs/internals/performance.md, ``make bench``).

Switch off: the setting ``fetch`` (``PERDURE_FETCH=false``). The runtime leaves prefetch off on
pools other than threads and solo, on a broker that is not the state server, and in a worker that
also consumes other queues.

Private parts used: none here.
"""

from __future__ import annotations

import itertools
import logging
import math
import time
from collections.abc import Sequence

logger = logging.getLogger("perdure.fetching")

#: Every 8th commit (at most one per 0.1 s) does not prefetch, so that its message goes through the
#: queue and an idle worker can take it. Otherwise a run would never leave its process.
SKIP_EVERY, SKIP_SECONDS = 8, 0.1
#: Every 8th commit pops from this worker's own queues first. A worker under load would otherwise
#: never reach them.
OWN_TURNS = 8


class Prefetcher:
    """Chooses the queues from which the commits of this process pop messages.

    Prefetch is off until ``begin`` is called.
    """

    def __init__(self) -> None:
        self._orders: list[Sequence[str]] = []
        self._own: Sequence[str] = ()
        self._turns = itertools.count(1)
        self._last_skipped = -math.inf
        self._inline = False
        #: Holders of prefetched messages that have not been delivered yet. A set needs no lock.
        self._undelivered: set[object] = set()
        #: Number of rounds that the pool runs at once.
        self.slots = 0

    def begin(
        self, queues: Sequence[str], slots: int, inline: bool, own: Sequence[str] = ()
    ) -> None:
        """Switch prefetch on for the commits of this process.

        Args:
            queues: The queues from which commits pop messages.
            slots: The number of rounds that the pool runs at once.
            inline: Whether the pool runs a round in the very call that submits it (solo).
            own: The queues of this worker's flow set. They are mostly empty, so they are rarely
                tried.
        """
        self.slots, self._inline, self._own = slots, inline, own
        # Each queue comes first in turn, so that none waits until the others are empty.
        self._orders = [[*queues[place:], *queues[:place]] for place in range(len(queues))]

    def end(self) -> None:
        """Switch prefetch off for the commits of this process."""
        self._orders = []

    @property
    def is_on(self) -> bool:
        """Whether the commits of this process prefetch messages."""
        return bool(self._orders)

    def queues(self, in_flight: int) -> Sequence[str]:
        """Return the queues from which the next commit pops a message, in order.

        Args:
            in_flight: The number of rounds that this process runs now.

        Returns:
            Empty if the next commit must not prefetch.
        """
        turn = next(self._turns)
        orders = self._orders
        if not orders:
            return ()
        if (
            turn % SKIP_EVERY == 0
            and (in_flight > 1 or self._inline)
            and (now := time.monotonic()) - self._last_skipped >= SKIP_SECONDS
        ):
            self._last_skipped = now
            return ()
        if len(self._undelivered) > self.slots:
            logger.error(
                "commits fetch no more: prefetched messages are not delivered. "
                "This version of Celery does not end a task as expected"
            )
            self.end()
            return ()
        order = orders[turn % len(orders)]
        return [*self._own, *order] if self._own and turn % OWN_TURNS == OWN_TURNS // 2 else order

    def holds(self, holder: object) -> None:
        """Record that ``holder`` has an undelivered prefetched message.

        If there are more such holders than slots, prefetch is switched off.
        """
        self._undelivered.add(holder)

    def delivers(self, holder: object) -> None:
        """Record that the message of ``holder`` is delivered.

        It was prefetched, and Celery's consumer gets it now.
        """
        self._undelivered.discard(holder)
