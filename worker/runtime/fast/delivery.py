"""Delivers prefetched messages as the broker would.

Replaces: the pop of a message by kombu's event loop.

Worth and switch off: see ``perdure.worker.engine.fast.prefetch``. ``unfit`` leaves prefetch off if
the worker receives more messages than it has slots, or on a Python without GIL.

It uses ``private_parts.messages``. Workers do not prefetch if their version of kombu or Celery has
changed one of these private parts.
"""

from __future__ import annotations

import logging
import sys
from collections import deque
from collections.abc import Callable
from typing import Any

from perdure.worker.engine.fast.handoff import FastRounds, Handoff
from perdure.worker.messaging.message import InvalidMessage, Validator
from perdure.worker.messaging.transports.redis import QoS, ValidatingChannel
from perdure.worker.private_parts.messages import deliver, has_consumer
from perdure.worker.private_parts.table import changed_parts, explained
from perdure.worker.store import Claim, Prefetched

logger = logging.getLogger("perdure.fetching")


class Delivery:
    """Delivers the messages that the commits of this process prefetched.

    Args:
        rounds: The parts that all fast paths of this process share.
        release: Releases a claim whose round cannot begin in this process.
        validate: Validates a popped message, from its text and its queue.
        inline: Whether the pool runs a round in the very call that submits it (solo).
    """

    def __init__(
        self,
        rounds: FastRounds,
        release: Callable[[Claim], None],
        validate: Validator,
        inline: bool = False,
    ) -> None:
        self._rounds = rounds
        self._release = release
        self._validate = validate
        self._inline = inline
        #: Handoffs with a claim on their way through Celery's consumer, by delivery tag.
        self._claimed: dict[str, Handoff] = {}
        self._inline_queue: deque[tuple[Prefetched, Handoff, Any]] = deque()
        self._is_delivering = False
        self._fit: dict[int, bool] = {}

    @property
    def is_on(self) -> bool:
        """Whether the commits of this process prefetch messages."""
        return self._rounds.prefetcher.is_on

    def end(self) -> None:
        """Switch prefetch off for the commits of this process."""
        self._rounds.prefetcher.end()

    def handoff(self, message: Any) -> Handoff | None:
        """Return the fast path for a received message's round.

        With it, the round's commit prefetches the next message. If a commit prefetched the received
        message and claimed its round, the fast path also has the claim.

        Args:
            message: The message that Celery's consumer received.

        Returns:
            None if prefetch is off, or if the message's channel cannot deliver prefetched messages.
        """
        if not self.is_on:
            return None
        channel = message.channel
        fits = self._fit.get(id(channel))
        if fits is None:
            why = unfit(channel, self._rounds.prefetcher.slots)
            fits = self._fit[id(channel)] = why is None
            if why is not None:
                logger.info("commits do not prefetch, each message is popped by itself: %s", why)
        if not fits:
            return None
        headers = message.headers
        handoff = self._claimed.get(message.delivery_tag) or self._rounds.handoff()
        handoff.task = headers["id"], headers.get("root_id")
        return handoff

    def deliver_next(self, handoff: Handoff, channel: Any) -> bool:
        """Deliver a prefetched message to Celery's consumer.

        A round's commit has prefetched it. With the pool solo, the message may be delivered only
        after the current delivery, so that the stack does not grow with each round.

        Args:
            handoff: The fast path of that round.
            channel: The kombu channel that delivered the message of that round.

        Returns:
            False if the commit prefetched nothing, or if the message was not delivered, because it
            is invalid or the consumer has stopped. The claim of such a message is released. With
            the pool solo, True for any prefetched message.
        """
        following = handoff.take_prefetched()
        if following is None:
            return False
        if not self._inline:
            return self._deliver(*following, channel)
        # The pool runs a round in the call that delivers it, and its commit prefetches again. A
        # queue keeps the stack from growing with each round.
        self._inline_queue.append((*following, channel))
        if not self._is_delivering:
            self._is_delivering = True
            try:
                while self._inline_queue:
                    self._deliver(*self._inline_queue.popleft())
            finally:
                self._is_delivering = False
        return True

    def _deliver(self, prefetched: Prefetched, handoff: Handoff, channel: Any) -> bool:
        queue = prefetched.list
        try:
            message = prefetched.content or self._validate(prefetched.text, queue)
        except InvalidMessage as error:
            channel.put_aside(queue, prefetched.text, error)
            return self._not_here(prefetched)
        transport = channel.connection
        if not has_consumer(transport, queue):
            return self._not_here(prefetched)  # the worker shuts down, or its connection was lost
        tag = message["properties"]["delivery_tag"]
        if handoff.claim is not None:
            self._claimed[tag] = handoff
        try:
            deliver(transport, message, queue)
        except Exception as error:
            logger.warning(
                "a prefetched message could not be delivered, its round is requeued: %s: %s",
                type(error).__name__,
                error,
            )
            return self._not_here(prefetched)
        finally:
            self._claimed.pop(tag, None)
        return True

    def _not_here(self, prefetched: Prefetched) -> bool:
        """Release the claim of a message that cannot be delivered here, and return False.

        A message without a claim counts as lost, and the sweep publishes it again.
        """
        if prefetched.claim is not None:
            self._release(prefetched.claim)
        return False


def unfit(channel: Any, slots: int) -> str | None:
    """Return why a kombu channel cannot deliver prefetched messages. None if it can.

    Args:
        slots: The number of rounds that the worker runs at once.
    """
    if (
        not isinstance(channel, ValidatingChannel)
        or channel.ack_emulation
        or type(channel.qos) is not QoS
    ):
        return (
            "messages do not come by the validating Redis channel, "
            "without kombu's records of unacknowledged ones"
        )
    if not 0 < channel.qos.prefetch_count <= slots:
        taken = channel.qos.prefetch_count or "any number of"
        return (
            f"the worker takes {taken} messages at once, and has {slots} slots; "
            "some would wait, claimed"
        )
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return "this Python has no GIL; kombu counts messages without a lock"
    changed = changed_parts("prefetch")
    return explained(changed) if changed else None
