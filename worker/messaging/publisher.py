"""The publishers: the only code that makes a broker message."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from kombu import Connection

from perdure.worker.errors import InvalidSettings
from perdure.worker.messaging.message import TASKS
from perdure.worker.messaging.message_builder import InMemoryTransport, Sender, captured
from perdure.worker.store.keys import Keys

if TYPE_CHECKING:
    from celery import Celery


class RoundMessage(NamedTuple):
    """A round's message with its Celery task and queue.

    ``text`` is the message as the broker's list holds it.
    """

    text: str
    task: str
    queue: str


class LazyMessage(NamedTuple):
    """A round's message that is serialized only on demand.

    Attributes:
        write: Serializes the message.
        read: Returns the message's validated form without serializing, or None if the text has to
            be validated.
    """

    task: str
    queue: str
    write: Callable[[], str]
    read: Callable[[], dict[str, Any] | None]

    @property
    def message(self) -> RoundMessage:
        """The message of a round, serialized to text."""
        return RoundMessage(self.write(), self.task, self.queue)


#: Builds the text of the message of a run, epoch and step.
Build = Callable[[str, int, int], str]


class MessageBuilder(Protocol):
    """Builds messages without Celery (``perdure.worker.messaging.fast.template``)."""

    def draft(
        self,
        app: Celery,
        build: Build,
        task: str,
        queue: str,
        args: tuple[str, int, int],
        origin: Sender | None,
    ) -> LazyMessage | None:
        """Return the message of a round, built without Celery.

        Args:
            build: Builds such a message with Celery.
            args: The run's id, epoch and step.
            origin: The sender, if it is known already.

        Returns:
            None if Celery has to build it.
        """


class Publisher(ABC):
    """Builds messages with Celery.

    The subclasses differ in how a built message reaches the broker.

    Args:
        builder: Builds messages faster than Celery; None for Celery alone.
    """

    #: The publisher's name in workers' announcements and in metrics.
    name: str
    #: Whether ``publish`` sends the messages to the broker, not the Lua scripts.
    outbox: bool

    def __init__(self, app: Celery, keys: Keys, builder: MessageBuilder | None = None) -> None:
        self._app = app
        self._keys = keys
        self._builder = builder
        self._local = threading.local()

    @abstractmethod
    def publish(self, messages: Iterable[tuple[str, str]]) -> None:
        """Publish the messages (queue and text) that a Lua script returned.

        It never raises. A message that could not be published counts as lost, and the sweep sends
        it again.
        """

    @abstractmethod
    def lengths(self, also: Iterable[str] = ()) -> Mapping[str, int] | None:
        """Return the broker's queue lengths, by name.

        Args:
            also: Names of queues of flow sets, beside the queues of the roles.

        Returns:
            None if the Lua scripts read the lengths themselves, empty if the broker does not reply.
        """

    @abstractmethod
    def close(self) -> None:
        """Close the publisher's connections to the broker."""

    def message(self, role: str, run_id: str, epoch: int, step: int) -> RoundMessage:
        """Return the Celery message of a run's round.

        Args:
            role: The role of the workers that run the round.
        """
        return self.message_for(TASKS[role], self._keys.queue(role), run_id, epoch, step)

    def message_for(
        self, task: str, queue: str, run_id: str, epoch: int, step: int
    ) -> RoundMessage:
        """Return the message for a stored task and queue.

        The run's hash names both.
        """
        return self._draft(task, queue, run_id, epoch, step).message

    def draft(
        self, role: str, run_id: str, epoch: int, step: int, origin: Sender | None = None
    ) -> LazyMessage:
        """Return a round's message, serialized only on demand.

        Its text is needed if another thread or process may have to read it.

        Args:
            origin: The sender, if it is known already.
        """
        return self._draft(TASKS[role], self._keys.queue(role), run_id, epoch, step, origin)

    def _draft(
        self,
        task: str,
        queue: str,
        run_id: str,
        epoch: int,
        step: int,
        origin: Sender | None = None,
    ) -> LazyMessage:
        build, args = partial(self._built, task, queue), (run_id, epoch, step)
        if self._builder is not None:
            draft = self._builder.draft(self._app, build, task, queue, args, origin)
            if draft is not None:
                return draft
        text = build(*args)
        return LazyMessage(task, queue, lambda: text, lambda: None)

    def _built(self, task: str, queue: str, run_id: str, epoch: int, step: int) -> str:
        """Build a round's message with Celery, as text."""
        captured.clear()
        # A user app's settings for its own tasks (time limits, a serializer) must not apply:
        # validation would refuse the message.
        plain = {
            "serializer": "json",
            "compression": None,
            "time_limit": None,
            "soft_time_limit": None,
        }
        self._app.tasks[task].apply_async(
            (run_id, epoch, step), queue=queue, producer=self._producer(), **plain
        )
        reached, text = captured.take()
        if reached != queue:
            raise InvalidSettings(
                f"the message of {task} was routed to {reached!r}; rounds must reach {queue!r}. "
                "Exempt the tasks perdure.* from task_routes and router classes"
            )
        return text

    def _producer(self) -> Any:
        # Threads must not share a channel. Creating one costs as much as a message, so each thread
        # keeps its own.
        producer = getattr(self._local, "producer", None)
        if producer is None:
            channel = Connection(transport=InMemoryTransport).default_channel
            producer = self._local.producer = self._app.amqp.Producer(channel, auto_declare=False)
        return producer


class SameServerPublisher(Publisher):
    """The publisher for runs and messages in one database.

    The store's scripts push a message in the same write as the state.
    """

    name = "fused"
    outbox = False

    def publish(self, messages: Iterable[tuple[str, str]]) -> None:
        """Do nothing: the Lua script has pushed the messages to the queues already."""

    def lengths(self, also: Iterable[str] = ()) -> None:
        """Return None: the Lua scripts read the lengths of the queues themselves."""

    def close(self) -> None:
        """Do nothing: a publisher for the state server's own queues has no connections."""
