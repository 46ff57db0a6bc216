"""The cost of a round's message: built by Celery, and filled into a template.

In microseconds of one process; no message is sent.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from benchmarks.measure import Measure
from benchmarks.report import Options, Report
from perdure.worker.app import engine_of, make_app
from perdure.worker.messaging.fast.template import MessageTemplates
from perdure.worker.messaging.message import TASKS
from perdure.worker.settings import Settings

MESSAGES = 500


def measure(options: Options) -> Report:
    """Measure both in turns. A pass is short, so there are three times as many as elsewhere."""
    dispatcher = engine_of(make_app(Settings(redis_url="redis://localhost/0"))).publisher
    task, queue = TASKS["controller"], dispatcher.message("controller", "warm-up", 0, 0).queue
    builder = dispatcher._builder
    assert isinstance(builder, MessageTemplates) and any(builder._templates.values()), (
        "there is no template: this version of Celery builds messages otherwise"
    )
    sides: dict[str, Callable[[str, str, str, int, int], object]] = {
        "a message, built by Celery": dispatcher._built,
        "a message, by Perdure's template": dispatcher.message_for,
    }
    spent: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(3 * options.passes):
        for name, make in sides.items():
            began = time.process_time()
            for step in range(MESSAGES):
                make(task, queue, "4f0c7b0e-run", 0, step)
            spent[name].append(1e6 * (time.process_time() - began) / MESSAGES)
    measures = [
        Measure(name, "CPU us", tuple(values), next(iter(sides))) for name, values in spent.items()
    ]
    return Report(
        "messages", "What a round's message costs its process; nothing is sent.", measures
    )
