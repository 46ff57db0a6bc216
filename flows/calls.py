"""Calling what a flow author wrote, be it a plain function or a coroutine function."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from flows.context import RoundContext
from flows.errors import RoundStopped

#: How often a coroutine's round looks at its cancel token.
LOOK_EVERY_SECONDS = 0.1


def call(function: Callable[..., Any], context: RoundContext, *args: Any, named: Mapping[str, Any] | None = None) -> Any:
    """Call ``function`` in this thread and, if it is a coroutine function, run it to its end in a loop of its own.

    A coroutine is cancelled when the round is; raises RoundStopped then, else whatever the function raises.
    """
    result = function(*args, **(named or {}))
    if inspect.isawaitable(result):
        return asyncio.run(_finish(result, context))
    return result


async def _finish(work: Awaitable[Any], context: RoundContext) -> Any:
    task = asyncio.ensure_future(work)
    told = False
    while not task.done():
        await asyncio.wait({task}, timeout=LOOK_EVERY_SECONDS)
        if context.cancelled.is_set() and not told:
            told = task.cancel()  # once: cancelling again would break its clean-up
    if not task.cancelled():
        return task.result()
    if told:
        raise RoundStopped(f"run {context.run_id}, step {context.step}: the round was cancelled, its coroutine was ended")
    raise RuntimeError("the coroutine cancelled itself; nobody asked the round to stop")
