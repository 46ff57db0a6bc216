"""Unacknowledged messages of rounds after a lost connection to the broker."""

from __future__ import annotations

import logging
from typing import Any

from celery.worker import state

from perdure.worker.messaging.message import TASKS
from perdure.worker.private_parts.messages import forget_delivery

logger = logging.getLogger("perdure.processes")


def forget_when_connection_is_lost(consumer: Any) -> None:
    """Make a worker forget unacknowledged messages of rounds after a lost connection.

    The message of a round is acknowledged when the round is over. While kombu 5.7 closes a lost
    connection, it tries to return such a message, fails with an AttributeError, and the worker
    ends. The acknowledgement on the closed channel fails in the same way. Rounds need neither of
    the two: if the worker dies, the sweep publishes the message again. Messages of the app's own
    tasks are not changed.

    Args:
        consumer: Celery's consumer.
    """
    lost = consumer.on_connection_error_after_connected

    def forget_and_go_on(error: Exception) -> None:
        _forget(consumer)
        lost(error)

    consumer.on_connection_error_after_connected = forget_and_go_on


def _forget(consumer: Any) -> None:
    forgotten = 0
    for request in list(state.reserved_requests):
        if request.name not in TASKS.values() or request.acknowledged:
            continue
        # RabbitMQ keeps the record of unacknowledged messages itself.
        if forget_delivery(request.message):
            request.acknowledged = True
            forgotten += 1
    if forgotten:
        logger.info("messages of rounds that the lost connection delivered: %d", forgotten)
