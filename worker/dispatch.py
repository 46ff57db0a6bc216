"""Dispatcher: the only place that makes a broker message."""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from kombu import Connection

from worker.capture import Transport, captured
from worker.carrier import Sender, sender
from worker.errors import InvalidSettings
from worker.meddling import is_listened_to, is_plain, way
from worker.store.keys import Keys
from worker.submission import RUN_ID
from worker.task_names import TASKS
from worker.template import Template, learned, new_ids

if TYPE_CHECKING:
    from celery import Celery


class Message(NamedTuple):
    """A round's message as the broker's list holds it, with the Celery task and queue it is for."""

    text: str
    task: str
    queue: str


class Draft(NamedTuple):
    """A round's message that need not be written: ``read`` tells what the guard makes of the text that ``write`` makes; None where it has
    to look at that.
    """

    task: str
    queue: str
    write: Callable[[], str]
    read: Callable[[], dict[str, Any] | None]

    @property
    def message(self) -> Message:
        """Written."""
        return Message(self.write(), self.task, self.queue)


class Dispatcher(ABC):
    """Builds messages with Celery itself, or by a template of what it builds. How a built message gets to the broker is what the two
    kinds differ in.
    """

    #: What to call it.
    name: str
    #: Whether the scripts leave the pushing to ``hand_over``.
    outbox: bool

    def __init__(self, app: Celery, keys: Keys) -> None:
        self._app = app
        self._keys = keys
        self._local = threading.local()
        self._templates: dict[tuple[Any, ...], Template | None] = {}

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
        return self._draft(task, queue, run_id, epoch, step).message

    def draft(self, role: str, run_id: str, epoch: int, step: int, who: Sender | None = None) -> Draft:
        """The message, to be written where somebody other than this thread is to read it; ``who`` sends it, where that is known."""
        return self._draft(TASKS[role], self._keys.queue(role), run_id, epoch, step, who)

    def _draft(self, task: str, queue: str, run_id: str, epoch: int, step: int, who: Sender | None = None) -> Draft:
        if not is_listened_to(task) and RUN_ID.fullmatch(run_id):
            who = who or sender()
            template = self._template(task, queue, who)
            if template is not None:
                blanks = ((run_id, epoch, step), who, *new_ids())
                return Draft(task, queue, partial(template.fill, *blanks), partial(template.read, *blanks))
        text = self._built(task, queue, run_id, epoch, step)
        return Draft(task, queue, lambda: text, lambda: None)

    def _template(self, task: str, queue: str, who: Sender) -> Template | None:
        """What to make messages by; None: Celery builds each."""
        by = way()
        # A forked process has another name, which its messages tell; and in a round Celery may do otherwise than outside of one.
        key = (task, queue, os.getpid(), who.parent is None, by)
        if key not in self._templates:
            build = partial(self._built, task, queue)
            self._templates[key] = learned(build, queue, who) if is_plain(self._app, task, by) else None
        return self._templates[key]

    def _built(self, task: str, queue: str, run_id: str, epoch: int, step: int) -> str:
        """A message's text, built by Celery."""
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
        return text

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
