"""One process of Restate's SDK, with a separate service; the argument is its port."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import restate
from hypercorn.asyncio import serve
from hypercorn.config import Config

from benchmarks.sides.self_report import number
from benchmarks.tally import stamp, tell_end, tell_ready
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


def main() -> None:
    """Serve until killed."""
    config = Config()
    config.bind = [f"127.0.0.1:{sys.argv[1]}"]
    config.accesslog = config.errorlog = None

    async def served() -> None:
        asyncio.get_running_loop().call_soon(tell_ready)
        await serve(restate.app([service]), config)  # type: ignore[arg-type]

    asyncio.run(served())


if __name__ == "__main__":
    main()
