"""Who has a say in the messages that this process sends: receivers of Celery's signals, and tracers that replace its functions.

An app's settings have none (worker/carrier.py). So where there is neither, messages are alike but for what they carry.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any

from celery import Celery, signals
from kombu import Producer

from worker.carrier import RoundTask

#: Those of publishing. A receiver may change the message, and counts on being told of each.
SIGNALS = (signals.before_task_publish, signals.after_task_publish, signals.task_sent)
#: The modules that the functions of ``way`` are from, in its order.
HOMES = ("celery.app.base", "kombu.messaging", "kombu.messaging")
#: What a message passes through and what tracers replace, to put their headers in.
Way = tuple[Any, ...]


def is_listened_to(task: str) -> bool:
    """Whether somebody listens to the publishing of this task; receivers come and go at any time."""
    if not (signals.before_task_publish.receivers or signals.after_task_publish.receivers or signals.task_sent.receivers):
        return False  # as almost always, and asked of each round
    return any(signal.has_listeners(task) for signal in SIGNALS)


def way() -> Way:
    """The functions that a message passes through now."""
    return Celery.send_task, Producer.publish, Producer._publish


def is_plain(app: Celery, task: str, by: Way) -> bool:
    """Whether this task of the app's is Holdfast's, and all that its messages pass through as Celery and kombu wrote it."""
    sending = app.tasks[task]
    own = type(sending).apply_async is RoundTask.apply_async and "apply_async" not in vars(sending)
    # A wrapper takes over name, module and documentation of what it wraps, but not its globals; or it is no function at all.
    original = all(type(each) is FunctionType and each.__globals__["__name__"] == home for each, home in zip(by, HOMES, strict=True))
    return own and original and app.amqp.Producer is Producer
