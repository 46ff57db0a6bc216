"""One worker process of DBOS."""

from __future__ import annotations

import os

from dbos import DBOS

from benchmarks.sides.dbos import POLLING, QUEUE, URL, VERSION
from benchmarks.sides.self_report import number, stay
from benchmarks.tally import stamp, tell_end
from benchmarks.work import state_after


@DBOS.workflow(name="one_round")
def one_round(state: str, done: int, rounds: int) -> str:
    """Play a round, and enqueue the next."""
    stamp()
    done += 1
    state = state_after(done, len(state))
    if done < rounds:
        DBOS.enqueue_workflow(QUEUE, one_round, state, done, rounds)
    else:
        tell_end(done)
    return state


@DBOS.step(name="step")
def step(state: str, done: int) -> str:
    """Play a round within a workflow."""
    stamp()
    return state_after(done, len(state))


@DBOS.workflow(name="all_rounds")
def all_rounds(state: str, done: int, rounds: int) -> str:
    """Play a run."""
    while done < rounds:
        done += 1
        state = step(state, done)
    tell_end(done)
    return state


if __name__ == "__main__":
    DBOS(
        config={
            "name": "bench",
            "system_database_url": os.environ[URL],
            "application_version": VERSION,
            "executor_id": f"worker-{number()}",
            "log_level": "WARNING",
        }
    )
    DBOS.launch()
    DBOS.register_queue(QUEUE, polling_interval_sec=POLLING)
    stay()
