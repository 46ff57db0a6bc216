"""Holdfast's app, which writes down the task of each message that Celery builds; with BUILDING_HEARD it listens to publishing as well.

A line is the process, what happened (``built`` or ``heard``), and the task.
"""

from __future__ import annotations

import os
from typing import Any

from celery import signals

from worker.app import app
from worker.dispatch import Dispatcher

__all__ = ["app"]

_built = Dispatcher._built


def _tell(what: str, task: str) -> None:
    with open(os.environ["BUILDING_TOLD"], "a") as told:
        told.write(f"{os.getpid()} {what} {task}\n")


def _telling(self: Dispatcher, task: str, *rest: Any) -> str:
    _tell("built", task)
    return _built(self, task, *rest)


Dispatcher._built = _telling  # type: ignore[method-assign]

if os.environ.get("BUILDING_HEARD"):
    signals.before_task_publish.connect(lambda sender, **_: _tell("heard", sender), weak=False)
