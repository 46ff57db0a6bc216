"""Detects receivers and tracers that can change outgoing messages.

Replaces: nothing. It decides whether ``fast.template`` may be used. An app's settings cannot change
a message (worker/messaging/message_builder.py). Without receivers and tracers, messages differ only
in run, step and ids.

Worth: see ``fast.template``.

Switch off: the setting ``fetch`` (``PERDURE_FETCH=false``).

It compares a private function of kombu (``private_parts.messages.last_publish_function``).
"""

from __future__ import annotations

from types import FunctionType
from typing import Any

from celery import Celery, signals
from kombu import Producer

from perdure.worker.messaging.message_builder import RoundTask
from perdure.worker.private_parts.messages import last_publish_function

#: The signals of publishing. A receiver may change a message, and must see each message.
SIGNALS = (signals.before_task_publish, signals.after_task_publish, signals.task_sent)
#: The modules that define the functions of ``publish_functions``, in its order.
HOMES = ("celery.app.base", "kombu.messaging", "kombu.messaging")
#: The functions that a message passes through, which tracers replace to add their headers.
PublishFunctions = tuple[Any, ...]


def has_receivers(task: str) -> bool:
    """Return whether Celery's publish signals have receivers for a task.

    This is checked for each message, because receivers may be connected and disconnected at any
    time.

    Args:
        task: The name of the task.
    """
    if not (
        signals.before_task_publish.receivers
        or signals.after_task_publish.receivers
        or signals.task_sent.receivers
    ):
        return False  # the usual case, and checked for each round
    return any(signal.has_listeners(task) for signal in SIGNALS)


def publish_functions() -> PublishFunctions:
    """Return the functions of Celery and kombu that each published message goes through.

    Tracing libraries may have replaced them.
    """
    return Celery.send_task, Producer.publish, last_publish_function()


def is_plain(app: Celery, task: str, functions: PublishFunctions) -> bool:
    """Return whether Celery and kombu publish a task's messages with their own, unchanged code.

    Args:
        task: The name of one of Perdure's tasks.
        functions: The result of ``publish_functions``.
    """
    sending_task = app.tasks[task]
    own = type(sending_task).apply_async is RoundTask.apply_async and "apply_async" not in vars(
        sending_task
    )
    # A wrapper copies name, module and docstring of the wrapped function, but not its globals. Or
    # it is no function at all.
    original = all(
        type(each) is FunctionType and each.__globals__["__name__"] == home
        for each, home in zip(functions, HOMES, strict=True)
    )
    return own and original and app.amqp.Producer is Producer
