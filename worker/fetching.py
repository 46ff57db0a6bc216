"""Fetching: the commit of a round brings the next message, which goes through Celery's own consumer as if the broker had brought it.

Only where Celery's worker plays rounds in its own process (threads, solo), over the guard's Redis channel. What it touches of kombu is
not kombu's public face; ``unfit`` says where it is not as it is known here, and there workers go on without.
"""

from __future__ import annotations

import inspect
import itertools
import logging
import math
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kombu.transport import virtual

from worker.carrier import Sender
from worker.guard.redis import Guarded, QoS
from worker.guard.shape import Shapes
from worker.guard.sifting import Malformed
from worker.staying import STAY_SECONDS
from worker.store import Fetched, Granted

logger = logging.getLogger("holdfast.fetching")

#: Of so many commits one fetches nothing, but no more often than every so many seconds: a message then goes the long way, to a worker
#: that is idle. A run's own next message would else stay with its process for ever.
LEFT_TO_OTHERS, LEFT_SECONDS = 8, 0.1
#: One commit in so many looks into the lists of this worker's own first: a worker under load would else never come to them.
OWN_TURNS = 8


@dataclass(slots=True, eq=False)
class Delivery:
    """One message that this process received: the claim that came with it, what its round's commit fetched, how long its run stays
    (a time of ``time.monotonic``), what the round's own messages say of where they are sent from, and since when the claim is here.
    """

    claim: Granted | None = None
    fetched: Fetched | None = None
    until: float = field(default_factory=lambda: time.monotonic() + STAY_SECONDS)
    sender: Sender | None = None
    since: float = field(default_factory=time.monotonic)

    @property
    def stays(self) -> bool:
        """Whether the run is to go on here after this round."""
        return time.monotonic() < self.until


class Fetching:
    """One process's fetching; off until ``begin``.

    Args:
        give_back: returns a claim whose round cannot be begun here.
    """

    def __init__(self, give_back: Callable[[Granted], None]) -> None:
        self._give_back = give_back
        self._orders: list[Sequence[str]] = []
        self._own: Sequence[str] = ()
        self._turns = itertools.count(1)
        self._left = -math.inf
        self._slots = 0
        self._inline = False
        #: Those with a claim, on their way through Celery's consumer, by delivery tag.
        self._claimed: dict[str, Delivery] = {}
        #: Fetched, not handed on yet.
        self._kept: set[Delivery] = set()
        self._line: deque[tuple[Fetched, Delivery, Any]] = deque()
        self._handing = False
        self._fit: dict[int, bool] = {}
        self._shapes = Shapes()

    def begin(self, lists: Sequence[str], slots: int, inline: bool, own: Sequence[str] = ()) -> None:
        """Fetch from these lists from now on.

        Args:
            own: lists of this worker's set of flows; seldom looked at, since they are mostly empty.
            slots: rounds that the pool plays at once.
            inline: whether the pool plays a round in the very call that hands it over (solo).
        """
        self._slots, self._inline, self._own = slots, inline, own
        # In turns another list comes first: none of them waits for the others to be empty.
        self._orders = [[*lists[place:], *lists[:place]] for place in range(len(lists))]

    def end(self) -> None:
        """Fetch no more."""
        self._orders = []

    @property
    def on(self) -> bool:
        """Whether commits fetch."""
        return bool(self._orders)

    def delivery(self, message: Any) -> Delivery | None:
        """What this process knows of a message that it received; None where its round's commit is to fetch nothing."""
        if not self._orders:
            return None
        channel = message.channel
        fits = self._fit.get(id(channel))
        if fits is None:
            why = unfit(channel, self._slots)
            fits = self._fit[id(channel)] = why is None
            if why is not None:
                logger.info("commits fetch nothing, each message is asked for: %s", why)
        return self._claimed.get(message.delivery_tag) or Delivery() if fits else None

    def lists(self, in_flight: int) -> Sequence[str]:
        """Where the next commit is to fetch from, in this order; empty for nothing.

        Args:
            in_flight: rounds that this process plays at the moment.
        """
        turn = next(self._turns)
        orders = self._orders
        if not orders:
            return ()
        if turn % LEFT_TO_OTHERS == 0 and (in_flight > 1 or self._inline) and (now := time.monotonic()) - self._left >= LEFT_SECONDS:
            self._left = now
            return ()
        if len(self._kept) > self._slots:
            logger.error(
                "commits fetch no more: what they fetched is not handed on; this version of Celery does not end a task as others do"
            )
            self.end()
            return ()
        order = orders[turn % len(orders)]
        return [*self._own, *order] if self._own and turn % OWN_TURNS == OWN_TURNS // 2 else order

    def keep(self, delivery: Delivery, fetched: Fetched) -> None:
        """What a commit fetched, until its round's own message is done with."""
        delivery.fetched, delivery.since = fetched, time.monotonic()
        self._kept.add(delivery)

    def hand_on(self, delivery: Delivery, channel: Any) -> bool:
        """Give what the delivery's round fetched to Celery's consumer; False where there is nothing, or nobody to take it any more."""
        fetched, delivery.fetched = delivery.fetched, None
        self._kept.discard(delivery)
        if fetched is None:
            return False
        claim = fetched.claim
        since = delivery.since
        follower = Delivery(claim, until=delivery.until, since=since) if claim is not None and claim.kept else Delivery(claim, since=since)
        if not self._inline:
            return self._deliver(fetched, follower, channel)
        # The pool plays a round in the call that delivers it, whose own commit then fetches: in a line, or the stack would grow with it.
        self._line.append((fetched, follower, channel))
        if not self._handing:
            self._handing = True
            try:
                while self._line:
                    self._deliver(*self._line.popleft())
            finally:
                self._handing = False
        return True

    def _deliver(self, fetched: Fetched, delivery: Delivery, channel: Any) -> bool:
        try:
            message = fetched.content or self._shapes.sifted(fetched.text, fetched.list)
        except Malformed as error:
            channel.put_aside(fetched.list, fetched.text, error)
            return self._not_here(fetched)
        transport = channel.connection
        if transport is None or fetched.list not in transport._callbacks:
            return self._not_here(fetched)  # the worker leaves, or its connection was lost
        tag = message["properties"]["delivery_tag"]
        if delivery.claim is not None:
            self._claimed[tag] = delivery
        try:
            transport._deliver(message, fetched.list)
        except Exception as error:
            logger.warning(
                "a message that was fetched could not be handed on, its round is offered again: %s: %s", type(error).__name__, error
            )
            return self._not_here(fetched)
        finally:
            self._claimed.pop(tag, None)
        return True

    def _not_here(self, fetched: Fetched) -> bool:
        """To others: at once where it is claimed, else by the sweep."""
        if fetched.claim is not None:
            self._give_back(fetched.claim)
        return False


def unfit(channel: Any, slots: int) -> str | None:
    """Why what is fetched cannot be handed to the consumer of this channel; None where it can."""
    if not isinstance(channel, Guarded) or channel.ack_emulation or type(channel.qos) is not QoS:
        return "messages do not come by the guard's channel for Redis, without kombu's records of what is unacknowledged"
    if not 0 < channel.qos.prefetch_count <= slots:
        taken = channel.qos.prefetch_count or "any number of"
        return f"the worker takes {taken} messages at once, and plays {slots} rounds; some would wait, claimed"
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return "threads of this Python run at once; kombu counts messages in one"
    return changed_ground()


def changed_ground() -> str | None:
    """What of kombu is not as the hand-over knows it; None where all is."""
    wanted = {
        (virtual.Transport, "_deliver"): ["self", "message", "queue"],
        (virtual.QoS, "append"): ["self", "message", "delivery_tag"],
        (virtual.QoS, "ack"): ["self", "delivery_tag"],
        (virtual.QoS, "can_consume"): ["self"],
    }
    for (owner, name), parameters in wanted.items():
        found = getattr(owner, name, None)
        if found is None or list(inspect.signature(found).parameters) != parameters:
            return f"this version of kombu has another {owner.__name__}.{name}"
    return None
