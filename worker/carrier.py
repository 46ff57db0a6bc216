"""The Celery app with which messages of rounds are built, so that nothing an app sets for its own tasks reaches them.

Eager execution, routes and router classes, serializer, compression, protocol, rate and time limits, missing queues: a
round's message has one form, whatever the app. Publish signals are Celery's own and fire all the same.
"""

from __future__ import annotations

from functools import cache, cached_property
from typing import Any, NamedTuple

from celery import Celery, Task
from celery.backends.base import DisabledBackend

#: Ten years, in seconds: longer than any round, where Celery takes None for "as the app says".
NEVER = 315_360_000


class Carrier(Celery):  # type: ignore[misc]
    """The app. It has no result backend, whatever CELERY_RESULT_BACKEND in the environment says, which outdoes a setting."""

    @cached_property
    def backend(self) -> DisabledBackend:
        """None. To find that out, Celery would go through all that is installed, in each of many threads that begin at once."""
        return DisabledBackend(app=self)


@cache
def _carrier() -> Celery:
    # A source of its own: without one, Celery would read the app's from CELERY_CONFIG_MODULE.
    plain = {"broker_url": "memory://", "task_serializer": "json", "result_backend": None}
    return Carrier("holdfast", set_as_current=False, fixups=set(), config_source=plain)


class Sender(NamedTuple):
    """What a message says of where it is sent from: the ids of the round under way in this thread and of the one that all began
    with (None where none is under way), and the thread's own.
    """

    root: str | None
    parent: str | None
    reply_to: str


def sender() -> Sender:
    """Of this thread, now."""
    carrier = _carrier()
    task = carrier.current_worker_task
    if task is None:
        return Sender(None, None, carrier.thread_oid)
    return sender_of(task.request)


def sender_of(request: Any) -> Sender:
    """Of this thread, which plays the round of ``request`` (a Celery task's)."""
    return Sender(request.root_id or request.id, request.id, _carrier().thread_oid)


class RoundFailed(Exception):
    """An attempt of a round failed. Celery tells of it (``task-failed``, ``task_failure``) and does nothing else about it."""


#: Celery's own machinery is kept out of rounds: results, retries, time limits and revokes do not hold on every pool, and
#: on Redis they double messages. An acknowledgement after the round returns a prefetched message at a warm shutdown.
class RoundTask(Task):  # type: ignore[misc]
    """Celery's plain task, not the app's; annotations and defaults for the app's own tasks are not for it."""

    from_config = ()
    Request = "worker.request:RoundRequest"
    acks_late = True
    acks_on_failure_or_timeout = True
    ignore_result = True
    store_eager_result = store_errors_even_if_ignored = False
    track_started = False
    max_retries = 0
    #: The engine has logged it already; Celery adds a line at the level INFO, without a traceback.
    throws = (RoundFailed,)

    @cached_property
    def backend(self) -> DisabledBackend:
        """None, as the carrier has none: the app's own keeps nothing of rounds."""
        return DisabledBackend(app=self.app)

    @classmethod
    def annotate(cls) -> None:
        """Nothing: ``task_annotations`` are for the app's own tasks."""

    def apply_async(self, args: Any = None, kwargs: Any = None, *, producer: Any = None, **options: Any) -> Any:
        """Send the round's message with ``producer``, or one of the app's."""
        with self.app.producer_or_acquire(producer) as sender:
            return _carrier().send_task(
                self.name, args, kwargs, producer=sender, ignore_result=True, add_to_parent=False, **{"serializer": "json", **options}
            )
