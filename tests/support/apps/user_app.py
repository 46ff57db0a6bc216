"""A user's Celery app with several tasks, on which Perdure is installed.

THEIRS_SETS (JSON) adds settings. THEIRS_HAS_PERDURE=0 leaves Perdure out.
"""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import redis
from celery import Celery

from perdure import install
from tests.support.apps.user_app_settings import Stubborn

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
    """Return the arguments of the call."""
    return list(given)


class Large(Exception):
    """An exception that takes its time through the pipe to the worker, unlike a result, of which
    Celery sends 200 characters.
    """

    def __str__(self) -> str:
        return "large"


@app.task(ignore_result=True, throws=(Large,))
def fail_at_large(size: int) -> None:
    """Fail with ``size`` bytes; break every connection to the server once a part of them is in the
    pipe to the worker.
    """
    client = redis.Redis.from_url(os.environ["PERDURE_REDIS_URL"])
    part = _written() + size // 10

    def cut() -> None:
        while _written() < part:
            time.sleep(0.0001)
        client.client_kill_filter(_type="normal", skipme=True)
        client.close()

    threading.Thread(target=cut).start()
    raise Large(b"-" * size)


def _written() -> int:
    """Return the bytes that this process has written."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["wchar"])
