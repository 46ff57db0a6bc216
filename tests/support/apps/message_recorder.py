"""Perdure's app, recording each message of Celery.

A line of the record is the process, the event (``built`` or ``heard``) and the task. With
BUILDING_HEARD set, a receiver of ``before_task_publish`` adds the lines ``heard``.
"""

from __future__ import annotations

import os
from typing import Any

from celery import signals

from perdure.worker.app import app
from perdure.worker.messaging.publisher import Publisher

__all__ = ["app"]

_built = Publisher._built


def _tell(what: str, task: str) -> None:
    with open(os.environ["BUILDING_TOLD"], "a") as told:
        told.write(f"{os.getpid()} {what} {task}\n")


def _telling(self: Publisher, task: str, *rest: Any) -> str:
    _tell("built", task)
    return _built(self, task, *rest)


Publisher._built = _telling  # type: ignore[method-assign]

if os.environ.get("BUILDING_HEARD"):
    signals.before_task_publish.connect(lambda sender, **_: _tell("heard", sender), weak=False)
