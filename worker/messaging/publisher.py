"""The publishers. No other code builds a round's message."""

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
    """A round's message, with its Celery task and its queue.

    Attributes:
        text: The message, as it is stored in the broker's list.
        task: The name of the task.
        queue: The name of the queue.
    """

    text: str
    task: str
    queue: str


class LazyMessage(NamedTuple):
    """A round's message whose text is made only on demand.

    Attributes:
        task: The name of the Celery task.
        queue: The name of the queue.
        write: Returns the text of the message.
        read: Returns the validated form of the message without the text. It returns None if the
            text has to be validated.
    """

    task: str
    queue: str
    write: Callable[[], str]
    read: Callable[[], dict[str, Any] | None]

    @property
    def message(self) -> RoundMessage:
        """The message with its text, which is made now."""
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
            task: The name of the Celery task.
            args: The run's id, epoch and step.
            origin: The Celery ids of the sender. None: those of this thread.

        Returns:
            None if Celery has to build the message.
        """


class Publisher(ABC):
    """Builds the messages of rounds. Its subclasses differ in how a message reaches the broker.

    Args:
        builder: Builds messages faster than Celery. None: Celery builds each message.
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
        """Publish messages that a Lua script returned to its caller.

        No error is raised. A message that could not be published counts as lost, and the sweep
        publishes it again.

        Args:
            messages: Queue and text of each message.
        """

    @abstractmethod
    def lengths(self, also: Iterable[str] = ()) -> Mapping[str, int] | None:
        """Return the length of each broker queue, by name.

        Args:
            also: Names of queues of flow sets, in addition to the queues of the roles.

        Returns:
            None if the Lua scripts read the lengths themselves. Empty if the broker does not
            answer.
        """

    @abstractmethod
    def close(self) -> None:
        """Close the publisher's connections to the broker."""

    def message(self, role: str, run_id: str, epoch: int, step: int) -> RoundMessage:
        """Return the message of a run's round.

        Args:
            role: The role of the workers that run the round: its task and its queue.
        """
        return self.message_for(TASKS[role], self._keys.queue(role), run_id, epoch, step)

    def message_for(
        self, task: str, queue: str, run_id: str, epoch: int, step: int
    ) -> RoundMessage:
        """Return the message of a run's round, for the task and the queue in the run's hash."""
        return self._draft(task, queue, run_id, epoch, step).message

    def draft(
        self, role: str, run_id: str, epoch: int, step: int, origin: Sender | None = None
    ) -> LazyMessage:
        """Return the message of a run's round. Its text is made only on demand.

        The text is needed if another thread or process may have to parse the message.

        Args:
            role: The role of the workers that run the round.
            origin: The Celery ids of the sender. None: those of this thread.
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
        """Build a round's message with Celery. Return its text.

        Raises:
            InvalidSettings: The app routes the task to another queue.
        """
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
    """The publisher for a broker on the state server, in the database of the runs.

    The store's scripts push each message in the same write as the state.
    """

    name = "fused"
    outbox = False

    def publish(self, messages: Iterable[tuple[str, str]]) -> None:
        """Do nothing: the Lua script has already pushed the messages to their queues."""

    def lengths(self, also: Iterable[str] = ()) -> None:
        """Return None: the Lua scripts read the lengths of the queues themselves."""

    def close(self) -> None:
        """Do nothing: this publisher has no connections."""
