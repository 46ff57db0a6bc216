"""An ordinary Celery app of somebody's, with Perdure on it: a task of its own, and what THEIRS_SETS (JSON) sets."""

from __future__ import annotations

import json
import os
from typing import Any

from celery import Celery

from perdure import install
from tests.support.apps.theirs_task import Stubborn

app = Celery(
    "theirs",
    broker=os.environ["THEIRS_BROKER"],
    backend=os.environ.get("THEIRS_RESULTS"),
    task_cls=Stubborn,
)
app.conf.task_default_queue = "theirs"
app.conf.update(json.loads(os.environ.get("THEIRS_SETS", "{}")))
if os.environ.get("THEIRS_HAS_PERDURE", "1") == "1":
    install(app)


@app.task
def add(x: int, y: int) -> int:
    return x + y


@app.task
def listed(*given: Any) -> list[Any]:
    """What it was called with."""
    return list(given)
