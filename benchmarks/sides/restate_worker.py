"""One process of Restate's SDK, with a separate service. The argument is its port."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import restate

from benchmarks.sides.restate import serve_restate
from benchmarks.sides.self_report import number
from benchmarks.tally import stamp, tell_end
from benchmarks.work import state_after

service = restate.Service(f"runs{number()}")


@service.handler("one_round")
async def one_round(context: restate.Context, run: dict[str, Any]) -> str:
    """Play a round, and send the next."""
    stamp()
    done = run["done"] + 1
    state = state_after(done, len(run["state"]))
    if done < run["rounds"]:
        context.service_send(one_round, {**run, "state": state, "done": done})
    else:
        tell_end(done)
    return state


@service.handler("all_rounds")
async def all_rounds(context: restate.Context, run: dict[str, Any]) -> str:
    """Play a run."""
    state, done = run["state"], run["done"]
    while done < run["rounds"]:
        done += 1
        state = await context.run_typed("round", play, done=done, size=len(state))
    tell_end(done)
    return str(state)


def play(done: int, size: int) -> str:
    """Play a round within a run."""
    stamp()
    return state_after(done, size)


if __name__ == "__main__":
    asyncio.run(serve_restate(restate.app([service]), int(sys.argv[1])))
