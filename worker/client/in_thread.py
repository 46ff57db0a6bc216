"""in_thread: makes a coroutine function of AsyncClient from a method of Client."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def in_thread(
    method: Callable[Concatenate[Any, P], T],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """Return a coroutine function that calls a method of ``Client`` in a thread.

    The function is a method of AsyncClient, and calls the method of the AsyncClient's own
    ``Client``. It has the name, parameters and docstring of that method. Each call occupies a
    thread of asyncio's default executor until it returns.
    """

    @wraps(method, updated=())
    async def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        import asyncio  # Commands load this module, and have no coroutines.

        bound: Callable[P, T] = getattr(self._client, method.__name__)
        return await asyncio.to_thread(bound, *args, **kwargs)

    call.__qualname__ = f"AsyncClient.{method.__name__}"
    call.__module__ = "perdure.worker.client.async_client"
    return call
