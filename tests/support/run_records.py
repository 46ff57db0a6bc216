"""Stored records of runs, for pure tests of a round's consequences."""

from __future__ import annotations

from perdure.worker.domain.execution_state import ExecutionState
from perdure.worker.domain.record import SCHEMA, Record, digest_of
from perdure.worker.settings import Settings

SETTINGS = Settings(redis_url=None)


def record(**extra: str) -> Record:
    fields = {
        **ExecutionState(current_node="Controller", step=4).to_fields(),
        "id": "r",
        "schema": SCHEMA,
        "flow": "ring",
        "goal": "g",
    }
    fields |= {
        "inputs": "{}",
        "cycles": "1",
        "turns": "7",
        "epoch": "2",
        "interrupt_before": "[]",
        "interrupt_after": "[]",
        **extra,
    }
    return Record({**fields, "digest": digest_of(fields)})
