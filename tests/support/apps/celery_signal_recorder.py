"""A record of each round as receivers of Celery's signals see it.

A worker imports it by ``PERDURE_FLOW_MODULES``. SEEN names the file. HEARS adds receivers to those
of ``task_prerun``: ``received`` records the request when it arrives, and ``publish`` puts the
header of a tracer on each message.
"""

from __future__ import annotations

import json
import os
from typing import Any

from celery import current_task, signals

#: The attributes that a task can read from its request.
ASKED = [
    "id",
    "root_id",
    "parent_id",
    "correlation_id",
    "reply_to",
    "args",
    "kwargs",
    "hostname",
    "is_eager",
    "called_directly",
    "delivery_info",
    "retries",
    "lang",
    "task",
    "argsrepr",
    "kwargsrepr",
    "origin",
    "ignore_result",
    "timelimit",
    "time_limit",
    "properties",
    "callbacks",
    "errbacks",
    "chain",
    "chord",
    "traceparent",
    "headers",
]


def write(**seen: Any) -> None:
    with open(os.environ["SEEN"], "a") as file:
        print(json.dumps(seen, default=lambda other: type(other).__name__), file=file)


@signals.task_prerun.connect(weak=False)
def _before(task_id: str, task: Any, args: Any, kwargs: Any, **_: Any) -> None:
    request = {name: getattr(current_task.request, name, "nothing") for name in ASKED}
    write(
        signal="prerun", task_id=task_id, name=task.name, args=args, kwargs=kwargs, request=request
    )


@signals.task_postrun.connect(weak=False)
def _after(task_id: str, state: str, retval: Any, **_: Any) -> None:
    write(signal="postrun", task_id=task_id, state=state, retval=retval)


@signals.task_success.connect(weak=False)
def _success(sender: Any, result: Any, **_: Any) -> None:
    write(signal="success", task_id=sender.request.id, result=result)


if "received" in os.environ.get("HEARS", ""):

    @signals.task_received.connect(weak=False)
    def _received(request: Any, **_: Any) -> None:
        told = {
            name: getattr(request, name)
            for name in ("args", "kwargs", "body", "content_type", "content_encoding", "argsrepr")
        }
        write(signal="received", task_id=request.id, body_is=type(request.body).__name__, **told)


if "publish" in os.environ.get("HEARS", ""):

    @signals.before_task_publish.connect(weak=False)
    def _publish(headers: Any, **_: Any) -> None:
        headers["traceparent"] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
