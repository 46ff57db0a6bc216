"""The Celery app and the transport that build messages.

The app is private. The transport is an in-memory transport of kombu. All messages of rounds have
one form, whatever the user's app configures for its own tasks: eager execution, routes and router
classes, serializer, compression, protocol, limits, missing queues. Celery's publish signals are
sent nevertheless.

The transport sends nothing. ``InMemoryChannel._put``, the hook that kombu documents for virtual
transports, stores the message that Celery built. The commit script pushes it.
"""

from __future__ import annotations

import threading
from functools import cache, cached_property
from typing import Any, NamedTuple

from celery import Celery, Task
from celery.backends.base import DisabledBackend
from kombu.transport import virtual
from kombu.utils.json import dumps


class CapturedMessages(threading.local):
    """The last message that was built in this thread.

    Attributes:
        queue: The queue of the message. Empty if there is no message.
        text: The message, as kombu's Redis transport writes it. Empty if there is no message.
    """

    queue: str = ""
    text: str = ""

    def clear(self) -> None:
        """Forget this thread's last message."""
        self.queue = self.text = ""

    def take(self) -> tuple[str, str]:
        """Return queue and text of this thread's last message.

        Both are empty if no message was built since ``clear``.
        """
        return self.queue, self.text


captured = CapturedMessages()


class InMemoryChannel(virtual.Channel):  # type: ignore[misc]
    """A kombu channel that only stores the messages that are published to it, in ``captured``."""

    do_restore = False

    def _put(self, queue: str, message: dict[str, Any], **options: Any) -> None:
        captured.queue, captured.text = queue, dumps(message)

    def _get(self, queue: str, timeout: float | None = None) -> Any:
        raise NotImplementedError(
            "the in-memory transport only builds messages; consume from the real broker"
        )

    def _size(self, queue: str) -> int:
        return 0

    def _purge(self, queue: str) -> int:
        return 0


class InMemoryTransport(virtual.Transport):  # type: ignore[misc]
    """The kombu transport with ``InMemoryChannel``."""

    Channel = InMemoryChannel
    driver_type = "capture"
    driver_name = "capture"

    def driver_version(self) -> str:
        """Return the version of this transport, for kombu."""
        return "1"


#: Ten years in seconds, longer than any round. Celery takes None for "use the app's limit".
NEVER = 315_360_000


class MessageApp(Celery):  # type: ignore[misc]
    """The Celery app that builds messages.

    It never has a result backend, even if the environment variable CELERY_RESULT_BACKEND, which
    overrides the app's setting, names one.
    """

    @cached_property
    def backend(self) -> DisabledBackend:
        """A Celery result backend that stores nothing.

        Without it, Celery would search all installed backends, in each of many threads that start
        at the same time.
        """
        return DisabledBackend(app=self)


@cache
def _message_app() -> Celery:
    # Without a config source Celery would read the app's from CELERY_CONFIG_MODULE.
    plain = {"broker_url": "memory://", "task_serializer": "json", "result_backend": None}
    return MessageApp("perdure", set_as_current=False, fixups=set(), config_source=plain)


class Sender(NamedTuple):
    """The ids in a message that identify its sender.

    Attributes:
        root: The task id of the first round in the chain of rounds that sent each other. None
            outside a round.
        parent: The task id of the round that runs in this thread. None outside a round.
        reply_to: The id of the thread.
    """

    root: str | None
    parent: str | None
    reply_to: str


def sender() -> Sender:
    """Return the ids with which this thread sends a message.

    Inside a round, they include the ids of the round's Celery task.
    """
    app = _message_app()
    task = app.current_worker_task
    if task is None:
        return Sender(None, None, app.thread_oid)
    return sender_within(task.request.id, task.request.root_id)


def sender_within(task_id: str, root_id: str | None) -> Sender:
    """Return the ids with which a round in this thread sends a message.

    Args:
        task_id: The id of the round's Celery task.
        root_id: The root id of that task. None: the task is itself the root.
    """
    return Sender(root_id or task_id, task_id, _message_app().thread_oid)


class RoundFailed(Exception):
    """Raised to Celery after a failed attempt of a round.

    Celery reports the failure (``task-failed``, ``task_failure``). It does not retry the task,
    because Perdure retries the round.
    """


#: Celery's own results, retries, time limits and revokes are kept out of rounds: they do not hold
#: on every pool, and on Redis they duplicate messages. Late acknowledgement returns a prefetched
#: message at a warm shutdown.
class RoundTask(Task):  # type: ignore[misc]
    """The base class of the tasks that run rounds.

    It inherits from Celery's plain task, not from the app's task class. So the app's annotations
    and task defaults do not apply to rounds.
    """

    from_config = ()
    Request = "perdure.worker.runtime.request:RoundRequest"
    acks_late = True
    acks_on_failure_or_timeout = True
    ignore_result = True
    store_eager_result = store_errors_even_if_ignored = False
    track_started = False
    max_retries = 0
    #: The engine has logged the failure already. With this, Celery adds one INFO line without a
    #: traceback.
    throws = (RoundFailed,)

    @cached_property
    def backend(self) -> DisabledBackend:
        """A Celery result backend that stores nothing, in place of the app's own."""
        return DisabledBackend(app=self.app)

    @property
    def rate_limit(self) -> None:
        """None: rounds have no rate limit.

        The remote command ``rate_limit`` has no effect, because rounds would have to wait.
        """
        return None

    @rate_limit.setter
    def rate_limit(self, limit: object) -> None:
        pass

    @classmethod
    def annotate(cls) -> None:
        """Do nothing: Celery's setting ``task_annotations`` is for the app's own tasks."""

    def apply_async(
        self, args: Any = None, kwargs: Any = None, *, producer: Any = None, **options: Any
    ) -> Any:
        """Send a round's message with ``producer``. None: with a producer of the task's app."""
        with self.app.producer_or_acquire(producer) as sender:
            return _message_app().send_task(
                self.name,
                args,
                kwargs,
                producer=sender,
                ignore_result=True,
                add_to_parent=False,
                **{"serializer": "json", **options},
            )
