"""AsyncClient: the methods of every client, for asyncio. Waiting for a run occupies no thread."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, overload
from uuid import uuid4

from perdure.flows.core.outcomes import ASK
from perdure.worker.client import Client
from perdure.worker.client.api import ClientApi
from perdure.worker.client.results import has_ended, id_of, rests, still
from perdure.worker.client.steer import PATIENCE, too_late
from perdure.worker.client.typed_answers import answer_of
from perdure.worker.domain.event import LAST, Event
from perdure.worker.domain.run import Run
from perdure.worker.domain.signal import SignalReply
from perdure.worker.domain.stream import StreamItem
from perdure.worker.errors import ValueNotFound
from perdure.worker.features.clients import ForAsyncClient
from perdure.worker.operations import validation
from perdure.worker.operations.intervals import pauses, seconds_of
from perdure.worker.settings import Settings

if TYPE_CHECKING:
    from celery import Celery

P = ParamSpec("P")
T = TypeVar("T")
#: Seconds between two reads while waiting for a run: short at first, then longer.
FIRST_LOOK, LAST_LOOK = 0.02, 0.5


def _in_thread(
    method: Callable[Concatenate[ClientApi, P], T],
) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]]:
    """Return a coroutine function that runs a method in a thread.

    It has the name, parameters and docstring of the client's method. Each call is one short
    exchange with the server.
    """

    @wraps(method, updated=())
    async def call(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        bound: Callable[P, T] = getattr(self._client, method.__name__)
        return await asyncio.to_thread(bound, *args, **kwargs)

    call.__qualname__ = f"AsyncClient.{method.__name__}"
    call.__module__ = __name__
    return call


class AsyncClient(ForAsyncClient):
    """Client of one server's runs for asyncio programs.

    It has the methods of ``Client``, as coroutines. ``events`` and ``stream`` are
    asynchronous iterators.
    """

    def __init__(
        self, url: str | None = None, settings: Settings | None = None, app: Celery | None = None
    ) -> None:
        self._client = Client(url, settings, app)
        self.settings = self._client.settings

    submit = _in_thread(ClientApi.submit)
    fork = _in_thread(ClientApi.fork)
    again = _in_thread(ClientApi.again)
    send = _in_thread(ClientApi.send)
    conversation = _in_thread(ClientApi.conversation)

    get = _in_thread(ClientApi.get)
    runs = _in_thread(ClientApi.runs)
    ids_beginning = _in_thread(ClientApi.ids_beginning)
    error_groups = _in_thread(ClientApi.error_groups)
    status_counts = _in_thread(ClientApi.status_counts)
    latest_events = _in_thread(ClientApi.latest_events)
    transcript = _in_thread(ClientApi.transcript)
    children = _in_thread(ClientApi.children)
    tree = _in_thread(ClientApi.tree)
    values = _in_thread(ClientApi.values)
    unread = _in_thread(ClientApi.unread)
    prompt = _in_thread(ClientApi.prompt)
    artifacts = _in_thread(ClientApi.artifacts)
    artifact = _in_thread(ClientApi.artifact)
    files = _in_thread(ClientApi.files)
    file = _in_thread(ClientApi.file)
    why = _in_thread(ClientApi.why)

    inbox = _in_thread(ClientApi.inbox)
    stuck = _in_thread(ClientApi.stuck)

    request_stop = _in_thread(ClientApi.request_stop)
    resume = _in_thread(ClientApi.resume)
    add = _in_thread(ClientApi.add)
    retry = _in_thread(ClientApi.retry)
    signal = _in_thread(ClientApi.signal)
    say = _in_thread(ClientApi.say)
    delete = _in_thread(ClientApi.delete)

    matching = _in_thread(ClientApi.matching)
    request_stop_many = _in_thread(ClientApi.request_stop_many)
    signal_many = _in_thread(ClientApi.signal_many)
    retry_many = _in_thread(ClientApi.retry_many)
    delete_many = _in_thread(ClientApi.delete_many)

    note_namespaces = _in_thread(ClientApi.note_namespaces)
    notes = _in_thread(ClientApi.notes)
    put_note = _in_thread(ClientApi.put_note)
    forget_notes = _in_thread(ClientApi.forget_notes)

    flows = _in_thread(ClientApi.flows)
    pause_flow = _in_thread(ClientApi.pause_flow)
    unpause_flow = _in_thread(ClientApi.unpause_flow)
    paused_flows = _in_thread(ClientApi.paused_flows)
    workers = _in_thread(ClientApi.workers)
    queues = _in_thread(ClientApi.queues)
    dead_letters = _in_thread(ClientApi.dead_letters)
    doctor = _in_thread(ClientApi.doctor)
    close = _in_thread(ClientApi.close)

    async def wait(self, run_id: str, timeout: float | timedelta | None = None) -> Run:  # noqa: ASYNC109  the same signature as ClientApi.wait
        return await self._run_when(run_id, rests, validation.timeout(timeout))

    @overload
    async def result(
        self,
        run: Run | str,
        timeout: float | timedelta | None = None,  # noqa: ASYNC109
        *,
        as_type: type[T],
    ) -> T: ...
    @overload
    async def result(
        self,
        run: Run | str,
        timeout: float | timedelta | None = None,  # noqa: ASYNC109
        *,
        as_type: Any = None,
    ) -> Any: ...
    async def result(
        self,
        run: Run | str,
        timeout: float | timedelta | None = None,  # noqa: ASYNC109  the same signature as ClientApi.result
        *,
        as_type: Any = None,
    ) -> Any:
        ended = await self._run_when(id_of(run), has_ended, validation.timeout(timeout))
        return await asyncio.to_thread(answer_of, ended, as_type, self._client._find_flows)

    async def _run_when(
        self, run_id: str, is_awaited: Callable[[Run], bool], seconds: float | None
    ) -> Run:
        patience = None if seconds is None else time.monotonic() + seconds
        pause = FIRST_LOOK
        while True:
            run = await self.get(run_id)
            if is_awaited(run):
                return run
            if patience is not None and time.monotonic() >= patience:
                raise still(run, seconds or 0.0, await self.why(run_id))
            await asyncio.sleep(
                pause if patience is None else max(0.0, min(pause, patience - time.monotonic()))
            )
            pause = min(pause * 1.5, LAST_LOOK)

    async def ask(
        self,
        run_id: str,
        question: Any,
        *,
        name: str = ASK,
        timeout: float | timedelta = PATIENCE,  # noqa: ASYNC109  the same signature as ClientApi.ask
        key: str | None = None,
        by: str | None = None,
    ) -> Any:
        seconds = seconds_of(timeout)
        receipt = await self.signal(run_id, name, question, key=key or uuid4().hex, by=by)
        reply = await self.reply(run_id, receipt.number, name, seconds)
        if not reply.replied:
            raise too_late(reply, seconds)
        return reply.value

    async def reply(
        self,
        run_id: str,
        number: int,
        name: str = ASK,
        timeout: float | timedelta = 0.0,  # noqa: ASYNC109  the same signature as ClientApi.reply
    ) -> SignalReply:
        for pause in pauses(seconds_of(timeout)):
            reply = await asyncio.to_thread(self._client.reply, run_id, number, name)
            if reply.replied:
                return reply
            await asyncio.sleep(pause)
        return await asyncio.to_thread(self._client.reply, run_id, number, name)

    async def value(self, run_id: str, name: str, wait: float | timedelta = 0.0) -> Any:
        for pause in pauses(seconds_of(wait)):
            try:
                return await asyncio.to_thread(self._client.value, run_id, name)
            except ValueNotFound:
                if (await self.get(run_id)).phase == "completed":
                    break
            await asyncio.sleep(pause)
        return await asyncio.to_thread(self._client.value, run_id, name)

    async def events(
        self, run_id: str, after: str | None = None, follow: bool = True
    ) -> AsyncIterator[Event]:
        validation.after(after)
        validation.flag(follow, "follow")
        pause = FIRST_LOOK
        ended = False
        while True:
            finished = ended or (await self.get(run_id)).status.ended
            batch = await asyncio.to_thread(
                lambda since: list(self._client.events(run_id, since, follow=False)), after
            )
            for event in batch:
                after, ended = event.id, event.type in LAST
                yield event
            if not follow or (finished and not batch):
                return
            pause = FIRST_LOOK if batch else min(pause * 1.5, LAST_LOOK)
            await asyncio.sleep(pause)

    async def stream(
        self, run_id: str, after: str | None = None, follow: bool = True
    ) -> AsyncIterator[StreamItem]:
        # The stream has its own thread, because the thread blocks until an item arrives.
        executor, loop = ThreadPoolExecutor(1, "perdure-stream"), asyncio.get_running_loop()
        try:
            items = await loop.run_in_executor(executor, self._client.stream, run_id, after, follow)
            while (item := await loop.run_in_executor(executor, next, items, None)) is not None:
                yield item
        finally:
            executor.shutdown(wait=False)

    wait.__doc__, events.__doc__ = ClientApi.wait.__doc__, ClientApi.events.__doc__
    result.__doc__ = ClientApi.result.__doc__
    ask.__doc__, reply.__doc__ = ClientApi.ask.__doc__, ClientApi.reply.__doc__
    value.__doc__, stream.__doc__ = ClientApi.value.__doc__, ClientApi.stream.__doc__
