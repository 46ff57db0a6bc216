"""Dispatcher: the only place that makes a broker message."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kombu import Connection

from worker.capture import Transport, captured
from worker.errors import InvalidSettings
from worker.store.keys import Keys

if TYPE_CHECKING:
    from celery import Celery

#: Celery's name of the task that plays a node, by the node's role.
TASKS = {"controller": "holdfast.controller_round", "executor": "holdfast.executor_round"}


@dataclass(frozen=True, slots=True)
class Message:
    """A round's message as the broker's list holds it, with the Celery task and queue it is for."""

    text: str
    task: str
    queue: str


class Dispatcher(ABC):
    """Builds messages with Celery itself. How a built message gets to the broker is what the two kinds differ in."""

    #: What to call it.
    name: str
    #: Whether the scripts leave the pushing to ``hand_over``.
    outbox: bool

    def __init__(self, app: Celery, keys: Keys) -> None:
        self._app = app
        self._keys = keys
        self._local = threading.local()

    @abstractmethod
    def hand_over(self, messages: Iterable[tuple[str, str]]) -> None:
        """See that what a script handed over (queue and text of each message) is with the broker, if that is possible now.

        It raises nothing: a message that could not be handed over is one that was lost, and the sweep sends it again.
        """

    @abstractmethod
    def lengths(self) -> Mapping[str, int] | None:
        """How many messages wait in each queue; None: the scripts see for themselves; empty: the broker does not answer."""

    @abstractmethod
    def close(self) -> None:
        """Close the connections."""

    def message(self, role: str, run_id: str, epoch: int, step: int) -> Message:
        """The message for the round ``step`` of ``run_id`` in ``epoch``, for workers of ``role``."""
        return self.message_for(TASKS[role], self._keys.queue(role), run_id, epoch, step)

    def message_for(self, task: str, queue: str, run_id: str, epoch: int, step: int) -> Message:
        """The same, for a task and queue as the run's hash names them."""
        captured.clear()
        # What an app of one's own sets for its tasks (time limits, another serializer) is not for rounds: the guard would refuse it.
        plain = {"serializer": "json", "compression": None, "time_limit": None, "soft_time_limit": None}
        self._app.tasks[task].apply_async((run_id, epoch, step), queue=queue, producer=self._producer(), **plain)
        reached, text = captured.take()
        if reached != queue:
            raise InvalidSettings(
                f"the message of {task} was routed to {reached!r}; rounds must reach {queue!r}. "
                "Exempt the tasks holdfast.* from task_routes and router classes"
            )
        return Message(text, task, queue)

    def _producer(self) -> Any:
        # A channel is not safe to share between threads; building one costs as much as a message, so each thread keeps its own.
        producer = getattr(self._local, "producer", None)
        if producer is None:
            channel = Connection(transport=Transport).default_channel
            producer = self._local.producer = self._app.amqp.Producer(channel, auto_declare=False)
        return producer


class Fused(Dispatcher):
    """Runs and messages share a database: the store's scripts push a message in the same write as the state."""

    name = "fused"
    outbox = False

    def hand_over(self, messages: Iterable[tuple[str, str]]) -> None:
        """It is there already."""

    def lengths(self) -> None:
        """The scripts see the lists."""

    def close(self) -> None:
        """There is none of its own."""
