"""Plain Celery's app: one task that enqueues itself until its run has had all its rounds, and the
tasks of a chord.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any

from celery import Celery, signals

from benchmarks.tally import stamp, tell_end, tell_ready
from benchmarks.work import state_after

ROUND, ITEM, JOIN = "plain.round", "plain.item", "plain.join"


def make_app(broker: str, settings: dict[str, Any]) -> Celery:
    """Return an app with Celery's defaults and these settings."""
    app = Celery("plain", broker=broker, set_as_current=False)
    app.conf.update(broker_connection_retry_on_startup=True, **settings)

    @app.task(name=ROUND, shared=False)  # type: ignore[untyped-decorator]
    def play(state: str, done: int, rounds: int) -> None:
        """Play one empty round. Its message carries the state, as in code without an engine."""
        stamp()
        done += 1
        if done < rounds:
            play.delay(state_after(done, len(state)), done, rounds)
        else:
            tell_end(done)

    @app.task(name=ITEM, shared=False)  # type: ignore[untyped-decorator]
    def item(number: int, seconds: float) -> int:
        """Take some seconds, and return the number."""
        time.sleep(seconds)
        return number

    @app.task(name=JOIN, shared=False)  # type: ignore[untyped-decorator]
    def join(numbers: list[int]) -> int:
        """Return how many different numbers there are."""
        return len(set(numbers))

    return app


def __getattr__(name: str) -> Celery:
    if name not in ("app", "celery"):
        raise AttributeError(name)
    signals.worker_ready.connect(lambda **_: tell_ready(), weak=False)
    globals()["app"] = globals()["celery"] = made = make_app(
        os.environ["BENCH_BROKER"], json.loads(os.environ["BENCH_SETTINGS"])
    )
    return made
