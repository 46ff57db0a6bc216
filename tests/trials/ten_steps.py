"""A workflow of ten steps whose effects a server of the trial writes down."""

from __future__ import annotations

import os
import threading
from functools import cache
from typing import Any

import redis

from perdure import RoundContext, Steps, workflow

#: The variable that says where effects are written down, and how many steps of each kind a run has.
LEDGER, EACH = "TRIAL_LEDGER", 5


@cache
def ledger() -> Any:
    """Return the receiver of all effects."""
    return redis.Redis.from_url(os.environ[LEDGER], decode_responses=True)


def effect(number: int, context: RoundContext) -> int:
    """Record an effect that cannot be recognized: each call counts."""
    ledger().rpush("effects", f"{context.run_id}:{number}")
    threading.Event().wait(0.005)
    return number


def keyed(number: int, context: RoundContext) -> int:
    """Record an effect whose receiver honours the key."""
    ledger().hsetnx("keyed", context.idempotency_key, f"{context.run_id}:{number}")
    threading.Event().wait(0.005)
    return number


@workflow("trial_ten")
def ten(steps: Steps) -> int:
    """Ten steps, whose receiver honours the key in every second one."""
    total = 0
    for number in range(2 * EACH):
        idempotent = number % 2 == 1
        step = keyed if idempotent else effect
        total += steps.step(step, number, name=f"s{number}", idempotent=idempotent)
    return total
