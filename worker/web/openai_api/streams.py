"""Streams of server-sent events for OpenAI's clients.

A stream is that of a response, or of a chat completion.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import aclosing
from typing import Any

from fastapi import Response
from fastapi.sse import format_sse_event
from sse_starlette import EventSourceResponse
from starlette.concurrency import run_in_threadpool

from perdure.flows.core.errors import PerdureError
from perdure.worker.domain.interrupt import PendingInterrupt
from perdure.worker.domain.run import Run, RunStatus
from perdure.worker.domain.stream import StreamItem
from perdure.worker.web.api.events import HEARTBEAT_SECONDS, MAX_STREAM_SECONDS, SEND_SECONDS
from perdure.worker.web.auth import AuthorizedClient, Caller
from perdure.worker.web.event_hub import EventHub
from perdure.worker.web.event_stream import StreamEnd, StreamRead, TextSource, watch
from perdure.worker.web.exposed_flows import BELOW_SECONDS, SETTLING, answer_text
from perdure.worker.web.openai_api.documents import chat_usage, finish_reason, tool_call
from perdure.worker.web.openai_api.errors import error_document
from perdure.worker.web.openai_api.stream_events import ResponseEvents, StreamEvent
from perdure.worker.web.problems import shown_text
from perdure.worker.web.question_facts import open_question, pending

logger = logging.getLogger("perdure.web")


async def stream_response(
    runs: AuthorizedClient, hub: EventHub, run: Run, after: int | None = None
) -> Response:
    """Return an HTTP stream of an OpenAI response's events.

    Args:
        after: Number of the last event that the client has. None: the client has no event.
    """
    source = TextSource(runs, run.id, None)
    first = await run_in_threadpool(source.read)
    return _sent(_response_frames(runs, hub, source, first, ResponseEvents(run, after)))


async def _response_frames(
    runs: AuthorizedClient,
    hub: EventHub,
    source: TextSource,
    first: StreamRead[StreamItem],
    events: ResponseEvents,
) -> AsyncIterator[bytes]:
    yield b": connected\n\n"
    yield _frames(events.begin())
    # No event of a run shows that a run below it asks something, so the run is read again.
    watched = watch(source, hub, first, True, MAX_STREAM_SECONDS, BELOW_SECONDS)
    async with aclosing(watched):
        async for batch in watched:
            if isinstance(batch, StreamEnd):
                if batch is StreamEnd.ENDED:
                    run = await run_in_threadpool(runs.get, source.run_id)
                    yield _frames(events.finish(run, pending(run)))
                return
            yield b"".join(_frames(events.translate(item)) for item in batch)
            if not batch or any(item.type in SETTLING for item in batch):
                run = await run_in_threadpool(runs.get, source.run_id)
                waiting = await run_in_threadpool(open_question, runs, run)
                if run.status.ended or waiting is not None:
                    yield _frames(events.finish(run, waiting))
                    return


def stream_chat(
    run: Run,
    settled: Callable[[], Awaitable[tuple[Run, PendingInterrupt | None]]],
    includes_usage: bool,
    caller: Caller,
) -> Response:
    """Return an HTTP stream of a chat completion.

    The protocol cannot retract text, so the answer is sent only when it is final.

    Args:
        settled: A function that waits until the run ends or asks a person something. It returns the
            run and the open question.
        includes_usage: Whether the stream ends with the used tokens.
        caller: The caller, who decides how much of an error's text is sent (``shown_text``).
    """
    return _sent(_chat_frames(run, settled, includes_usage, caller))


async def _chat_frames(
    run: Run,
    settled: Callable[[], Awaitable[tuple[Run, PendingInterrupt | None]]],
    includes_usage: bool,
    caller: Caller,
) -> AsyncIterator[bytes]:
    def chunk(delta: dict[str, Any], reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": reason, "logprobs": None}
        return _chat_frame(run, [choice])

    yield chunk({"role": "assistant", "content": ""})
    try:
        run, waiting = await settled()
    except PerdureError as error:
        text = shown_text(error, caller)
        yield _data(error_document(error.http_status, error.code, text))
        return
    refused = chat_error(run, waiting)
    if refused is not None:
        yield _data(error_document(*refused))
        return
    if run.status is RunStatus.COMPLETED:
        yield chunk({"content": answer_text(run)})
    elif (call := tool_call(run, waiting)) is not None:
        yield chunk({"tool_calls": [{"index": 0, **call}]})
    yield chunk({}, finish_reason(run, waiting))
    if includes_usage:
        yield _chat_frame(run, [], chat_usage(run))
    yield b"data: [DONE]\n\n"


def chat_error(run: Run, waiting: PendingInterrupt | None) -> tuple[int, str, str] | None:
    """Return the error to send instead of a chat completion.

    It consists of HTTP status, code and text. A run that errored, was stopped or goes on is an
    error, because a chat completion has no status.

    Returns:
        None if the run has completed, or if a question is open (``waiting``).
    """
    if run.status is RunStatus.COMPLETED or waiting is not None:
        return None
    if run.status is RunStatus.ERRORED:
        return 500, "run-failed", f"run {run.id} failed: {run.error}"
    if run.status is RunStatus.STOPPED:
        return 409, "run-stopped", f"run {run.id} was stopped"
    advice = (
        f"Read its answer from /v1/responses/{run.id}, or start such runs with /v1/responses and "
        "background"
    )
    return 504, "run-goes-on", f"run {run.id} is {run.status.value} and goes on. {advice}"


def _chat_frame(run: Run, choices: list[Any], usage: Any = None) -> bytes:
    return _data(
        {
            "id": run.id,
            "object": "chat.completion.chunk",
            "created": int(run.created_at.timestamp()),
            "model": run.flow,
            "choices": choices,
            "usage": usage,
        }
    )


def _sent(frames: AsyncIterator[bytes]) -> Response:
    return EventSourceResponse(frames, ping=HEARTBEAT_SECONDS, send_timeout=SEND_SECONDS)


def _frames(events: Iterable[StreamEvent]) -> bytes:
    return b"".join(
        format_sse_event(event=event["type"], data_str=_text(event)) for event in events
    )


def _data(document: Any) -> bytes:
    return format_sse_event(data_str=_text(document))


def _text(document: Any) -> str:
    # A damaged run may hold lone surrogates, which are no UTF-8: ASCII escapes them.
    return json.dumps(document, separators=(",", ":"))
