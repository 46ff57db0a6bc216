"""What a round's message costs: built by Celery, and filled into a template; microseconds of one process, nothing sent."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from worker.app import engine_of, make_app
from worker.dispatch import TASKS
from worker.settings import Settings

PASSES = 15
MESSAGES = 500


def measure() -> dict[str, float]:
    """The medians of both, and that of how many times as long Celery takes."""
    dispatcher = engine_of(make_app(Settings(redis_url="redis://localhost/0"))).dispatcher
    task, queue = TASKS["controller"], dispatcher.message("controller", "warm-up", 0, 0).queue
    assert any(dispatcher._templates.values()), "there is no template: this version of Celery builds messages otherwise"
    sides: dict[str, Callable[[str, str, str, int, int], object]] = {"celery": dispatcher._built, "template": dispatcher.message_for}
    spent: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(PASSES):  # A B A B: the machine drifts
        for name, make in sides.items():
            began = time.process_time()
            for step in range(MESSAGES):
                make(task, queue, "4f0c7b0e-run", 0, step)
            spent[name].append(1e6 * (time.process_time() - began) / MESSAGES)
    ratio = statistics.median(a / b for a, b in zip(*spent.values(), strict=True))
    return {**{f"{name}_us": round(statistics.median(values), 1) for name, values in spent.items()}, "ratio": round(ratio, 1)}


def line(found: dict[str, float]) -> str:
    """What was found, for people."""
    return f"{'a message':15} {found['template_us']:7.1f} us by template, {found['celery_us']:.0f} us by Celery ({found['ratio']:.0f} x)"


if __name__ == "__main__":
    print(line(measure()))
