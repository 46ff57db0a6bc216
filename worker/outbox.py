"""Outbox: the hand-over where the broker is RabbitMQ, or another Redis than the one that holds the runs.

A commit cannot reach both servers in one write. So the run's due time is the outbox: the script writes it with the state, a
short grace ahead, the message is published after that, and a run whose message never arrived is due before long.
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

from worker.broker import is_amqp, queues_of
from worker.dispatch import Dispatcher
from worker.store.keys import Keys

if TYPE_CHECKING:
    from celery import Celery
    from kombu import Connection, Queue

T = TypeVar("T")
logger = logging.getLogger("holdfast.outbox")

#: Seconds for one answer of the broker, a publisher confirm included. A round waits for it; the sweep would make good what it gives up.
PATIENCE = 1.0
#: The broker has not answered: it is let alone for so many seconds, so that an outage costs not every round its patience.
SPARED = 2.0
#: Seconds for all messages of one hand-over: a sweep has others to look after.
LONGEST = 3.0
#: Connections of one process to publish with; rounds that publish at the same moment wait for one another.
CONNECTIONS = 8


class Outbox(Dispatcher):
    """Publishes what the scripts hand over, and tells the sweep how long the broker's queues are."""

    name = "outbox"
    outbox = True

    def __init__(self, app: Celery, keys: Keys) -> None:
        super().__init__(app, keys)
        self._silent_until = 0.0
        self._silent = False
        self._forget_parent()

    def hand_over(self, messages: Iterable[tuple[str, str]]) -> None:
        """Publish; a broker that does not answer is told in the log, once."""
        waiting = deque(read for queue, text in messages if (read := _read(queue, text)) is not None)
        if waiting:
            self._ask(lambda channel: self._publish(channel, waiting))

    def lengths(self) -> Mapping[str, int]:
        """What the broker says of each queue, which it makes where it is not there."""
        return self._ask(lambda channel: {queue.name: _declared(queue, channel) for queue in self._queues}) or {}

    def close(self) -> None:
        """Close the connections."""
        while (idle := self._take()) is not None:
            idle.close()

    def _publish(self, channel: Any, waiting: deque[dict[str, Any]]) -> None:
        """Publish, and take out of ``waiting`` what need not be published again should the connection break."""
        producer = self._app.amqp.Producer(channel, auto_declare=False)
        until = time.monotonic() + LONGEST
        while waiting:
            if time.monotonic() > until:
                logger.warning("the broker is slow; %d messages are left to a later sweep", len(waiting))
                return
            queue = waiting[0]["routing_key"]
            try:
                producer.publish(
                    exchange="",
                    declare=[known for known in self._queues if known.name == queue],
                    mandatory=True,  # RabbitMQ confirms what it has no queue for, unless it is asked not to
                    timeout=PATIENCE,
                    confirm_timeout=PATIENCE,
                    **waiting[0],
                )
            except self._errors:
                raise
            except Exception as error:
                _tell_damaged(queue, error)  # it reads, but cannot be written
            waiting.popleft()

    def _ask(self, act: Callable[[Any], T]) -> T | None:
        """What ``act`` makes of a channel; None where the broker does not answer, or did not just now."""
        if os.getpid() != self._pid:
            self._forget_parent()
        with self._slots:
            if time.monotonic() < self._silent_until:  # perhaps found out by those for whom this one waited
                return None
            try:
                answer = self._try(act)
            except self._errors as error:
                self._silent_until = time.monotonic() + SPARED
                if not self._silent:
                    logger.warning("the broker does not take messages; the sweep sends them as soon as it does: %s", error)
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
                self._drop(idle)  # the broker was away since they were opened: the other idle ones are as dead as this one
            return self._try(act)
        self._idle.append(connection)
        return answer

    def _drop(self, connection: Connection) -> None:
        """Close without a word to a broker that may not listen (kombu's ``collect`` has one, and sets the whole process's timeout)."""
        if self._amqp and connection._connection is not None:
            connection._connection.collect()
        connection.close()

    def _take(self) -> Connection | None:
        try:
            return self._idle.pop()
        except IndexError:
            return None

    def _forget_parent(self) -> None:
        """Start anew: a fork copies the parent's connections, and two processes on one connection would talk at cross purposes."""
        self._pid = os.getpid()
        self._slots = threading.BoundedSemaphore(CONNECTIONS)
        self._idle: list[Connection] = []

    @cached_property
    def _connection(self) -> Connection:
        """What each connection is like; itself never opened."""
        # One try at each of the brokers that Celery's settings name to fail over between.
        count = len(self._app.connection_for_write().alt) or 1
        options: dict[str, Any] = {"max_retries": count - 1, "connect_retries_timeout": count * PATIENCE}
        if self._amqp:
            options |= {"confirm_publish": True, "read_timeout": PATIENCE, "write_timeout": PATIENCE}
        else:
            options |= {"socket_timeout": PATIENCE, "socket_connect_timeout": PATIENCE}
        return self._app.connection_for_write(connect_timeout=PATIENCE, heartbeat=0, transport_options=options)

    @cached_property
    def _errors(self) -> tuple[type[Exception], ...]:
        """What a broker raises that is away, or does not want us."""
        return (OperationalError, OSError, MessageNacked, *self._connection.connection_errors, *self._connection.channel_errors)

    @cached_property
    def _queues(self) -> list[Queue]:
        return queues_of(self._keys, self._amqp)

    @cached_property
    def _amqp(self) -> bool:
        return is_amqp(self._app.conf.broker_write_url)


def _read(queue: str, text: str) -> dict[str, Any] | None:
    """A stored message as what to publish; None for one that does not read: what the server holds of one run may be damaged in
    any way, and the others' messages must go out all the same.
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
        _tell_damaged(queue, error)
        return None


def _tell_damaged(queue: str, error: Exception) -> None:
    logger.error("a message for %s is damaged and cannot be published; its run waits: %s: %s", queue, type(error).__name__, error)


def _declared(queue: Any, channel: Any) -> int:
    """How many messages wait there; the queue is made where it is not."""
    bound = queue.bind(channel)
    bound.declare()
    return int(channel.queue_declare(queue=queue.name, durable=True, auto_delete=False, arguments=queue.queue_arguments).message_count)
