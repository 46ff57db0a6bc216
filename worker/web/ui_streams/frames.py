"""A run's stream as bytes for a chat interface."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import aclosing

from starlette.concurrency import run_in_threadpool

from perdure.flows.core.outcomes import Turn
from perdure.worker.domain.event import position_of
from perdure.worker.domain.run import Run
from perdure.worker.domain.stream import StreamItem
from perdure.worker.errors import DamagedRun, RunNotFound
from perdure.worker.store import StoreUnavailable
from perdure.worker.web.auth import AuthorizedClient
from perdure.worker.web.event_hub import EventHub
from perdure.worker.web.event_stream import StreamEnd, StreamRead, TextSource, watch
from perdure.worker.web.exposed_flows import BELOW_SECONDS
from perdure.worker.web.question_facts import MOST_EVENTS, open_question
from perdure.worker.web.ui_streams.response import UiResponse
from perdure.worker.web.ui_streams.tool_results import (
    CallRefused,
    ToolResult,
    ToolResults,
    told_by_event,
)
from perdure.worker.web.ui_streams.writer import UiEvent, UiToolCall, UiWriter, encoded

#: A number greater than that of any live text of the same millisecond.
LAST_NUMBER = 10**17


def response_start(runs: AuthorizedClient, run_id: str) -> str | None:
    """Return the id of the event before a run's response.

    It is the event of the last resume or retry.

    Returns:
        None if the newest MOST_EVENTS events have no such event. The response begins with the run.
    """
    for event in reversed(runs.latest_events(run_id, MOST_EVENTS)):
        if event.type in ("resumed", "retried"):
            return event.id
    return None


def behind(event_id: str) -> str:
    """Return the position after an event in a run's stream.

    All earlier live text is before this position too.
    """
    ms, _, _ = event_id.partition("-")
    return f"{event_id}/{ms}-{LAST_NUMBER}"


class UiFrames:
    """A run's stream as server-sent events for one client.

    Args:
        writer: The writer of the client's protocol.
        calls: Tool calls in the client's conversation that have no result yet.
        begin_after: The id of the event after which the response begins. Earlier items of the
            source are read too, but not sent: the response may have the results of their calls.
            None: the response begins with the source's first item.
    """

    def __init__(
        self,
        runs: AuthorizedClient,
        source: TextSource,
        writer: UiWriter,
        calls: Sequence[UiToolCall] = (),
        begin_after: str | None = None,
    ) -> None:
        self._begin = None if begin_after is None else position_of(begin_after)
        self._runs, self._source, self._writer = runs, source, writer
        self._response = UiResponse(source.run_id, writer, calls)
        self._results = ToolResults()
        self._turns: list[Turn] = []

    async def stream(
        self, hub: EventHub, first: StreamRead[StreamItem], follow: bool, seconds: float
    ) -> AsyncIterator[bytes]:
        """Yield the response as bytes.

        The generator ends when the response or ``watch`` ends. For the arguments see ``watch``.
        """
        run = await run_in_threadpool(self._runs.get, self._source.run_id)
        yield b"".join(map(frame, (*self._writer.begin(run), *self._response.begin())))
        # No event of a run shows that a run below it asks something, so the run is read again.
        watched = watch(self._source, hub, first, follow, seconds, BELOW_SECONDS)
        async with aclosing(watched):
            async for batch in watched:
                if isinstance(batch, StreamEnd):
                    yield await self._end(batch)
                    return
                if not batch and (asked := await self._ask_below()):
                    yield asked
                    return
                for item in batch:
                    events = await self._events(item)
                    event, _, _ = item.id.partition("/")
                    if self._begin is None or position_of(event) > self._begin:
                        yield _frames(events, item.id)
                    if self._response.is_over:
                        yield self._writer.trailer()
                        return

    async def _events(self, item: StreamItem) -> list[UiEvent]:
        run: Run | None = None
        results: Sequence[ToolResult | CallRefused] = ()
        if self._response.needs_run(item):
            try:
                run = await run_in_threadpool(self._runs.get, self._source.run_id)
            except (RunNotFound, DamagedRun, StoreUnavailable):
                return []  # The stream ends for this reason at its next read.
        if self._response.needs_results(item):
            results = await run_in_threadpool(self._results_of, item)
        return list(self._response.take(item, run, results))

    async def _end(self, end: StreamEnd) -> bytes:
        """Return the last bytes, after a StreamEnd of ``watch``.

        They are needed if the last item of the stream has not ended the response. The result is
        empty if the client does not wait for new items and no run below asks a person.
        """
        if end is StreamEnd.CAUGHT_UP:
            return await self._ask_below()
        events: Iterable[UiEvent] = self._response.lose()
        if end is StreamEnd.ENDED:
            run = await run_in_threadpool(self._runs.get, self._source.run_id)
            events = self._response.end(run)
        written = b"".join(map(frame, events))
        return written + (self._writer.trailer() if self._response.is_over else b"")

    async def _ask_below(self) -> bytes:
        """Return the bytes for a question from a run below.

        They end the response with the open question of a run below. Empty if no run below asks a
        person, if the run has an open question of its own, or if the run cannot be read.
        """
        try:
            run = await run_in_threadpool(self._runs.get, self._source.run_id)
            waiting = await run_in_threadpool(open_question, self._runs, run)
        except (RunNotFound, DamagedRun, StoreUnavailable):
            return b""  # The stream ends for this reason at its next read.
        if waiting is None or waiting.run_id == run.id:
            return b""  # The stream has an event of the run's own question.
        return b"".join(map(frame, self._response.ask(waiting))) + self._writer.trailer()

    def _results_of(self, item: StreamItem) -> Sequence[ToolResult | CallRefused]:
        found = self._results.of(item.data, self._turns)
        try:
            if found is None:
                run_id = self._source.run_id
                self._turns += self._runs.turns(run_id, len(self._turns))
                found = self._results.of(item.data, self._turns)
        except (RunNotFound, DamagedRun, StoreUnavailable):
            pass
        return told_by_event(item.data) if found is None else found


def frame(event: UiEvent) -> bytes:
    """Return an event as the bytes of a server-sent event."""
    return f"data: {encoded(event)}\n\n".encode("utf-8", "backslashreplace")


def _frames(events: Sequence[UiEvent], item_id: str) -> bytes:
    """Return the events of a stream item as bytes.

    The last event has the item's id, so that a client can continue after the item.
    """
    if not events:
        return b""
    *others, last = map(frame, events)
    return b"".join((*others, f"id: {item_id}\n".encode(), last))
