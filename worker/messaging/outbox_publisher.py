"""The outbox publisher, for a broker that is not the state server.

The broker is RabbitMQ or another Redis. One write cannot reach both servers. So the commit script
makes the run due shortly after the commit, and the message is published after the commit. If the
message does not reach the broker, a sweep finds the overdue run and publishes the message again.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from amqp.exceptions import MessageNacked
from kombu.exceptions import OperationalError

from perdure.worker.broker_urls import is_amqp
from perdure.worker.messaging.broker import queue_of_set, queues_of
from perdure.worker.messaging.publisher import MessageBuilder, Publisher
from perdure.worker.store.keys import Keys

if TYPE_CHECKING:
    from celery import Celery
    from kombu import Connection, Queue

T = TypeVar("T")
logger = logging.getLogger("perdure.outbox")

#: Seconds to wait for one reply of the broker, a publisher confirm included. A round waits for it.
#: If the publisher gives up, the sweep publishes the message.
PATIENCE = 1.0
#: Seconds without further attempts after the broker did not reply, so that an outage does not cost
#: each round its ``PATIENCE``.
SPARED = 2.0
#: Seconds for all messages of one call. A sweep has other runs to process.
LONGEST = 3.0
#: Connections per process for publishing. Threads that publish at the same moment wait for one.
CONNECTIONS = 8


class OutboxPublisher(Publisher):
    """Publishes the messages that Lua scripts return to their caller.

    It also reports the lengths of the broker's queues to the sweep.
    """

    name = "outbox"
    outbox = True

    def __init__(self, app: Celery, keys: Keys, builder: MessageBuilder | None = None) -> None:
        super().__init__(app, keys, builder)
        self._silent_until = 0.0
        self._silent = False
        self._forget_parent()

    def publish(self, messages: Iterable[tuple[str, str]]) -> None:
        """Publish messages of rounds to the broker.

        No error is raised. If the broker does not answer, the rest of the messages is left to the
        sweep. A log line reports the beginning of such an outage.

        Args:
            messages: Queue and text of each message. Damaged messages are logged and left out.
        """
        waiting = deque(
            read for queue, text in messages if (read := _read(queue, text)) is not None
        )
        if waiting:
            self._ask(lambda channel: self._publish_waiting(channel, waiting))

    def lengths(self, also: Iterable[str] = ()) -> Mapping[str, int]:
        """Return the length of each queue, by name. Declare queues that do not exist.

        Empty if the broker does not answer.

        Args:
            also: Names of queues of flow sets, in addition to the queues of the roles.
        """
        queues = [*self._queues, *(queue_of_set(name, self._amqp) for name in also)]
        return (
            self._ask(lambda channel: {queue.name: _declared(queue, channel) for queue in queues})
            or {}
        )

    def close(self) -> None:
        """Close the broker connections that no thread uses."""
        while (idle := self._take()) is not None:
            idle.close()

    def _publish_waiting(self, channel: Any, waiting: deque[dict[str, Any]]) -> None:
        """Publish the waiting messages on a channel.

        Each published message is removed from ``waiting``. If the connection breaks, the caller
        calls this again with another channel for the rest. After ``LONGEST`` seconds, the rest is
        left to a later sweep.
        """
        producer = self._app.amqp.Producer(channel, auto_declare=False)
        until = time.monotonic() + LONGEST
        while waiting:
            if time.monotonic() > until:
                logger.warning(
                    "the broker is slow; %d messages are left to a later sweep",
                    len(waiting),
                )
                return
            queue = waiting[0]["routing_key"]
            try:
                producer.publish(
                    exchange="",
                    declare=[each for each in self._queues if each.name == queue],
                    # Else RabbitMQ confirms a message for which it has no queue.
                    mandatory=True,
                    timeout=PATIENCE,
                    confirm_timeout=PATIENCE,
                    **waiting[0],
                )
            except self._errors:
                raise
            except Exception as error:
                # It could be parsed, but not written.
                _log_damaged(queue, error)
            waiting.popleft()

    def _ask(self, act: Callable[[Any], T]) -> T | None:
        """Call a function with a channel to the broker.

        If the broker has not answered, no call is made for ``SPARED`` seconds.

        Returns:
            The result of the function. None if the broker does not answer, or if no call was made.
        """
        if os.getpid() != self._pid:
            self._forget_parent()
        with self._slots:
            # A thread that held a slot before this one may have found the broker silent.
            if time.monotonic() < self._silent_until:
                return None
            try:
                answer = self._try(act)
            except self._errors as error:
                self._silent_until = time.monotonic() + SPARED
                if not self._silent:
                    logger.warning(
                        "the broker does not take messages; the sweep sends them as soon as it "
                        "does: %s",
                        error,
                    )
                self._silent = True
                return None
        if self._silent:
            logger.warning("the broker takes messages again")
        self._silent = False
        return answer

    def _try(self, act: Callable[[Any], T]) -> T:
        idle = self._take()
        connection = idle or self._connection.clone()
        try:
            answer = act(connection.default_channel)
        except BaseException as error:
            self._drop(connection)
            if idle is None or not isinstance(error, self._errors):
                raise
            while (idle := self._take()) is not None:
                # The broker was away since they were opened, so the other idle ones are dead too.
                self._drop(idle)
            return self._try(act)
        self._idle.append(connection)
        return answer

    def _drop(self, connection: Connection) -> None:
        """Close a connection without a message to the broker, which may not answer.

        kombu's ``collect`` would send such a message, and sets a socket timeout for the whole
        process.
        """
        if self._amqp and connection._connection is not None:
            connection._connection.collect()
        connection.close()

    def _take(self) -> Connection | None:
        try:
            return self._idle.pop()
        except IndexError:
            return None

    def _forget_parent(self) -> None:
        """Forget the broker connections that a fork copied.

        Two processes cannot share a connection.
        """
        self._pid = os.getpid()
        self._slots = threading.BoundedSemaphore(CONNECTIONS)
        self._idle: list[Connection] = []

    @cached_property
    def _connection(self) -> Connection:
        """The connection of which each thread gets a clone. It is never opened itself."""
        # One attempt at each of the brokers between which Celery's settings fail over.
        count = len(self._app.connection_for_write().alt) or 1
        options: dict[str, Any] = {
            "max_retries": count - 1,
            "connect_retries_timeout": count * PATIENCE,
        }
        if self._amqp:
            options |= {
                "confirm_publish": True,
                "read_timeout": PATIENCE,
                "write_timeout": PATIENCE,
            }
        else:
            options |= {"socket_timeout": PATIENCE, "socket_connect_timeout": PATIENCE}
        return self._app.connection_for_write(
            connect_timeout=PATIENCE, heartbeat=0, transport_options=options
        )

    @cached_property
    def _errors(self) -> tuple[type[Exception], ...]:
        """The exceptions of a broker that does not answer, or does not accept a message."""
        return (
            OperationalError,
            OSError,
            MessageNacked,
            *self._connection.connection_errors,
            *self._connection.channel_errors,
        )

    @cached_property
    def _queues(self) -> list[Queue]:
        return queues_of(self._keys, self._amqp)

    @cached_property
    def _amqp(self) -> bool:
        return is_amqp(self._app.conf.broker_write_url)


def _read(queue: str, text: str) -> dict[str, Any] | None:
    """Convert a stored message to arguments of kombu's ``publish``.

    Returns:
        None if the message is damaged. This is logged, so that the messages of other runs can still
        be published.
    """
    try:
        message = json.loads(text)
        return {
            "body": base64.b64decode(message["body"]),
            "routing_key": queue,
            "content_type": message["content-type"],
            "content_encoding": message["content-encoding"],
            "headers": message["headers"],
            "delivery_mode": message["properties"]["delivery_mode"],
            "correlation_id": message["properties"]["correlation_id"],
        }
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        _log_damaged(queue, error)
        return None


def _log_damaged(queue: str, error: Exception) -> None:
    logger.error(
        "a message for %s is damaged and cannot be published; its run waits: %s: %s",
        queue,
        type(error).__name__,
        error,
    )


def _declared(queue: Any, channel: Any) -> int:
    """Declare a queue at the broker, and return the number of its messages."""
    bound = queue.bind(channel)
    bound.declare()
    return int(
        channel.queue_declare(
            queue=queue.name, durable=True, auto_delete=False, arguments=queue.queue_arguments
        ).message_count
    )
