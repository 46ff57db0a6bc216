"""Workflows that write their effects into a ledger, for tests that kill their process."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from perdure import AsyncSteps, Step, Steps, workflow
from tests.support.numbered_crash_points import POINT, happens, lines

#: Siblings that are done before the others begin.
FIRST = 2
#: Which of five siblings may be carried out again.
IDEMPOTENT = (True, False, True, False, True)


def part(number: int) -> str:
    """Run one of five siblings. The last three begin when the first two are recorded."""
    until = time.monotonic() + 20
    while number >= FIRST and time.monotonic() < until:
        recorded = {each for each in lines() if each.startswith(f"{POINT}after record part")}
        if len(recorded) >= FIRST:
            break
        time.sleep(0.001)
    return happens(f"part{number}")


def _parts() -> list[tuple[int, dict[str, Any]]]:
    return [
        (number, {"name": f"part{number}", "idempotent": each})
        for number, each in enumerate(IDEMPOTENT)
    ]


@workflow("killed_order")
def killed_order(steps: Steps) -> list[Any]:
    """Load, five siblings at once, a question, a wait, pay, mail."""
    found = [steps.step(happens, "load", name="load", idempotent=True)]
    found += steps.gather(Step(part, number, **options) for number, options in _parts())
    found.append(steps.ask("may I pay?"))
    steps.sleep(0)
    found.append(steps.step(happens, "pay", name="pay"))
    found.append(steps.step(happens, "mail", name="mail", idempotent=True))
    return found


@workflow("killed_live_order")
async def killed_live_order(steps: AsyncSteps) -> list[Any]:
    """Load, five siblings at once, a question, a wait, pay, mail."""
    found = [await steps.step(happens, "load", name="load", idempotent=True)]
    found += await asyncio.gather(
        *(steps.step(part, number, **options) for number, options in _parts())
    )
    found.append(await steps.ask("may I pay?"))
    await steps.sleep(0)
    found.append(await steps.step(happens, "pay", name="pay"))
    found.append(await steps.step(happens, "mail", name="mail", idempotent=True))
    return found
