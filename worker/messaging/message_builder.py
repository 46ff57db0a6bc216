"""The private Celery app and transport that build messages.

The transport is an in-memory one of kombu.

A round's message has one form, whatever the user's app sets for its own tasks: eager execution,
routes and router classes, serializer, compression, protocol, limits, missing queues. Celery's
publish signals fire all the same.

The transport sends nothing. ``InMemoryChannel._put``, the hook that kombu documents for virtual
transports, keeps the message that Celery built. The commit script pushes it.
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
    """The last message built in this thread.

    It holds the list that the message is for, and its text as kombu's Redis transport writes it.
    """

    queue: str = ""
    text: str = ""

    def clear(self) -> None:
        """Forget this thread's last message."""
        self.queue = self.text = ""

    def take(self) -> tuple[str, str]:
        """Return queue and text of this thread's last message.

        Both are empty if Celery has built none since ``clear``.
        """
        return self.queue, self.text


captured = CapturedMessages()


class InMemoryChannel(virtual.Channel):  # type: ignore[misc]
    """A channel that only stores its messages in ``captured``."""

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
    """The transport of ``InMemoryChannel``."""

    Channel = InMemoryChannel
    driver_type = "capture"
    driver_name = "capture"

    def driver_version(self) -> str:
        """Return the version of the in-memory transport."""
        return "1"


#: Ten years in seconds, longer than any round. Celery takes None for "use the app's limit".
NEVER = 315_360_000


class MessageApp(Celery):  # type: ignore[misc]
    """The app that builds messages.

    It has no result backend, even if CELERY_RESULT_BACKEND, which overrides a setting, names one.
    """

    @cached_property
    def backend(self) -> DisabledBackend:
        """A Celery result backend that stores nothing.

        Without it Celery would search all installed backends, in each of many threads that start at
        once.
        """
        return DisabledBackend(app=self)


@cache
def _message_app() -> Celery:
    # Without a config source Celery would read the app's from CELERY_CONFIG_MODULE.
    plain = {"broker_url": "memory://", "task_serializer": "json", "result_backend": None}
    return MessageApp("perdure", set_as_current=False, fixups=set(), config_source=plain)


class Sender(NamedTuple):
    """The part of a message that names its sender.

    Attributes:
        root: The task id of the first round of the chain, or None outside a round.
        parent: The task id of the round running in this thread, or None outside a round.
        reply_to: The thread's own id.
    """

    root: str | None
    parent: str | None
    reply_to: str


def sender() -> Sender:
    """Return this thread's ids for a message's sender.

    Inside a round, these include the ids of the round's Celery task.
    """
    app = _message_app()
    task = app.current_worker_task
    if task is None:
        return Sender(None, None, app.thread_oid)
    return sender_within(task.request.id, task.request.root_id)


def sender_within(task_id: str, root_id: str | None) -> Sender:
    """Return a round's ids for a message's sender.

    They come from the ids of the round's Celery task.
    """
    return Sender(root_id or task_id, task_id, _message_app().thread_oid)


class RoundFailed(Exception):
    """Raised to Celery after a failed attempt of a round.

    Celery reports it (``task-failed``, ``task_failure``) and does nothing else about it.
    """


#: Celery's own results, retries, time limits and revokes are kept out of rounds: they do not hold
#: on every pool, and on Redis they duplicate messages. Late acknowledgement returns a prefetched
#: message at a warm shutdown.
class RoundTask(Task):  # type: ignore[misc]
    """The base class of the round tasks.

    It is Celery's plain task, not the app's: the app's annotations and task defaults do not apply.
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
        """A Celery result backend that stores nothing: the app's own has no results of rounds."""
        return DisabledBackend(app=self.app)

    @property
    def rate_limit(self) -> None:
        """No limit. The remote command ``rate_limit`` does not apply, since rounds would wait."""
        return None

    @rate_limit.setter
    def rate_limit(self, limit: object) -> None:
        pass

    @classmethod
    def annotate(cls) -> None:
        """Ignore Celery's ``task_annotations``, which are for the app's own tasks."""

    def apply_async(
        self, args: Any = None, kwargs: Any = None, *, producer: Any = None, **options: Any
    ) -> Any:
        """Send a round's message with ``producer``, or with a producer of the app."""
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
