"""AsyncClient: the methods of every client, for asyncio.

While a coroutine waits for a run, it occupies no thread. Only ``stream`` has a thread of its own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload
from uuid import uuid4

from perdure.flows.core.outcomes import ASK
from perdure.worker.client import Client
from perdure.worker.client.api import ClientApi
from perdure.worker.client.in_thread import in_thread
from perdure.worker.client.results import has_ended, id_of, rests, still
from perdure.worker.client.steer import PATIENCE, too_late
from perdure.worker.client.typed_answers import answer_of
from perdure.worker.domain.event import LAST, Event
from perdure.worker.domain.run import Run
from perdure.worker.domain.signal import SignalReply
from perdure.worker.domain.stream import StreamItem
from perdure.worker.errors import ValueNotFound
from perdure.worker.features.clients import AsyncClientFeatures
from perdure.worker.operations import validation
from perdure.worker.operations.intervals import pauses, seconds_of
from perdure.worker.settings import Settings

if TYPE_CHECKING:
    from celery import Celery

P = ParamSpec("P")
T = TypeVar("T")
#: Seconds between two reads while waiting for a run: short at first, then longer.
FIRST_LOOK, LAST_LOOK = 0.02, 0.5


class AsyncClient(AsyncClientFeatures):
    """Client of the runs on one state server, for asyncio programs.

    It has the methods of ``Client``, as coroutines. ``events`` and ``stream`` are
    asynchronous iterators.
    """

    def __init__(
        self, url: str | None = None, settings: Settings | None = None, app: Celery | None = None
    ) -> None:
        self._client = Client(url, settings, app)
        self.settings = self._client.settings

    submit = in_thread(ClientApi.submit)
    fork = in_thread(ClientApi.fork)
    again = in_thread(ClientApi.again)
    send = in_thread(ClientApi.send)
    conversation = in_thread(ClientApi.conversation)

    get = in_thread(ClientApi.get)
    runs = in_thread(ClientApi.runs)
    ids_beginning = in_thread(ClientApi.ids_beginning)
    error_groups = in_thread(ClientApi.error_groups)
    status_counts = in_thread(ClientApi.status_counts)
    latest_events = in_thread(ClientApi.latest_events)
    transcript = in_thread(ClientApi.transcript)
    children = in_thread(ClientApi.children)
    tree = in_thread(ClientApi.tree)
    values = in_thread(ClientApi.values)
    unread = in_thread(ClientApi.unread)
    prompt = in_thread(ClientApi.prompt)
    artifacts = in_thread(ClientApi.artifacts)
    artifact = in_thread(ClientApi.artifact)
    files = in_thread(ClientApi.files)
    file = in_thread(ClientApi.file)
    why = in_thread(ClientApi.why)

    inbox = in_thread(ClientApi.inbox)
    stuck = in_thread(ClientApi.stuck)

    request_stop = in_thread(ClientApi.request_stop)
    resume = in_thread(ClientApi.resume)
    add = in_thread(ClientApi.add)
    retry = in_thread(ClientApi.retry)
    signal = in_thread(ClientApi.signal)
    say = in_thread(ClientApi.say)
    delete = in_thread(ClientApi.delete)

    matching = in_thread(ClientApi.matching)
    request_stop_many = in_thread(ClientApi.request_stop_many)
    signal_many = in_thread(ClientApi.signal_many)
    retry_many = in_thread(ClientApi.retry_many)
    delete_many = in_thread(ClientApi.delete_many)

    flows = in_thread(ClientApi.flows)
    pause_flow = in_thread(ClientApi.pause_flow)
    unpause_flow = in_thread(ClientApi.unpause_flow)
    paused_flows = in_thread(ClientApi.paused_flows)
    workers = in_thread(ClientApi.workers)
    queues = in_thread(ClientApi.queues)
    dead_letters = in_thread(ClientApi.dead_letters)
    doctor = in_thread(ClientApi.doctor)
    close = in_thread(ClientApi.close)

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
