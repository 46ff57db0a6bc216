"""Calls of a flow's own functions, and the round's cancel token.

The functions may be plain functions or coroutine functions. The cancel token is the event
``RoundContext.cancelled`` of the round that the current thread executes. Code without a context
reads the token while it waits, to notice that the round was cancelled.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from perdure.flows.core.errors import RoundStopped
from perdure.flows.core.event_loop import run
from perdure.flows.rounds.context import RoundContext

#: Seconds between two checks of the cancel token while a coroutine runs.
POLL_SECONDS = 0.1


def call(
    function: Callable[..., Any],
    context: RoundContext,
    *args: Any,
    named: Mapping[str, Any] | None = None,
) -> Any:
    """Call a function of a flow, and return its result.

    A coroutine runs to its end on the event loop of this process, while this thread waits. The
    coroutine is cancelled when the round is cancelled.

    Args:
        args, named: the positional and the keyword arguments.

    Raises:
        RoundStopped: the coroutine was cancelled with its round.
        RuntimeError: the coroutine was cancelled, although the round was not.
        Exception: whatever the function raises.
    """
    result = function(*args, **(named or {}))
    # Most results are dicts, for which the slower isawaitable need not be asked.
    if type(result) is not dict and inspect.isawaitable(result):
        return run(_finish(result, context))
    return result


async def _finish(work: Awaitable[Any], context: RoundContext) -> Any:
    task = asyncio.ensure_future(work)
    is_cancelling = False
    while not task.done():
        await asyncio.wait({task}, timeout=POLL_SECONDS)
        if context.cancelled.is_set() and not is_cancelling:
            is_cancelling = task.cancel()  # Only once: a second time would break its clean-up.
    if not task.cancelled():
        return task.result()
    if is_cancelling:
        raise RoundStopped(
            f"run {context.run_id}, step {context.step}: the round was cancelled, "
            "and with it its coroutine"
        )
    raise RuntimeError("the coroutine cancelled itself, although the round was not cancelled")


_CANCELLED: ContextVar[threading.Event | None] = ContextVar("cancelled", default=None)


@contextmanager
def playing(cancelled: threading.Event) -> Iterator[None]:
    """Make ``cancelled_of_round`` return ``cancelled`` in the ``with`` block."""
    before = _CANCELLED.set(cancelled)
    try:
        yield
    finally:
        _CANCELLED.reset(before)


def cancelled_of_round() -> threading.Event | None:
    """Return the cancel token of the current round. None outside of a round."""
    return _CANCELLED.get()
