"""The notifications of an AsyncClient: the methods of ``Notifications``, as coroutines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from perdure.worker.features.notifications.client import Notifications

P = ParamSpec("P")
T = TypeVar("T")


def _in_thread(
    method: Callable[Concatenate[Notifications, P], T],
) -> Callable[Concatenate[AsyncNotifications, P], Coroutine[Any, Any, T]]:
    """Return a coroutine function that calls a method of ``Notifications`` in a thread.

    The function has the name, parameters and docstring of the method.
    """

    @wraps(method, updated=())
    async def call(self: AsyncNotifications, /, *args: P.args, **kwargs: P.kwargs) -> T:
        bound: Callable[P, T] = getattr(self._notifications, method.__name__)
        return await asyncio.to_thread(bound, *args, **kwargs)

    call.__qualname__ = f"AsyncNotifications.{method.__name__}"
    call.__module__ = __name__
    return call


class AsyncNotifications:
    """The notifications on a state server, for asyncio programs.

    Args:
        notifications: The object whose methods are called.
    """

    def __init__(self, notifications: Notifications) -> None:
        self._notifications = notifications

    dead = _in_thread(Notifications.dead)
    waiting = _in_thread(Notifications.waiting)
    get = _in_thread(Notifications.get)
    send_again = _in_thread(Notifications.send_again)
    send_dead_again = _in_thread(Notifications.send_dead_again)
    delete = _in_thread(Notifications.delete)
    try_rule = _in_thread(Notifications.try_rule)
