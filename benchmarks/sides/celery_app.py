"""Plain Celery's app: one task that enqueues itself until its run has had all its rounds."""

from __future__ import annotations

import json
import os
from typing import Any

from celery import Celery, signals

from benchmarks.tally import stamp, tell_end, tell_ready
from benchmarks.work import state_after

ROUND = "plain.round"


def make_app(broker: str, settings: dict[str, Any]) -> Celery:
    """Return an app with Celery's defaults and these settings."""
    app = Celery("plain", broker=broker, set_as_current=False)
    app.conf.update(broker_connection_retry_on_startup=True, **settings)

    @app.task(name=ROUND, shared=False)  # type: ignore[untyped-decorator]
    def play(state: str, done: int, rounds: int) -> None:
        """Play one empty round, whose message carries the state, as in code without an engine."""
        stamp()
        done += 1
        if done < rounds:
            play.delay(state_after(done, len(state)), done, rounds)
        else:
            tell_end(done)

    return app


def __getattr__(name: str) -> Celery:
    if name not in ("app", "celery"):
        raise AttributeError(name)
    signals.worker_ready.connect(lambda **_: tell_ready(), weak=False)
    globals()["app"] = globals()["celery"] = made = make_app(
        os.environ["BENCH_BROKER"], json.loads(os.environ["BENCH_SETTINGS"])
    )
    return made
