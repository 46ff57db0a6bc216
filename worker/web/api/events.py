"""Events of a run, as a list or as a live stream of server-sent events."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from typing import Annotated, Any, Literal

from fastapi import Header, Query, Request, Response
from fastapi.sse import format_sse_event
from sse_starlette import EventSourceResponse
from starlette.concurrency import run_in_threadpool

from perdure.worker.domain.event import Event
from perdure.worker.domain.stream import StreamItem
from perdure.worker.web.api.responses import Events
from perdure.worker.web.api.routes import RunId, problems, resource_router
from perdure.worker.web.auth import AuthorizedClient
from perdure.worker.web.auth.permissions import Runs
from perdure.worker.web.event_hub import EventHub
from perdure.worker.web.event_stream import (
    EventSource,
    Source,
    StreamEnd,
    T,
    TextSource,
    read_events,
    watch,
)
from perdure.worker.web.json_body import Json
from perdure.worker.web.services import RouteServices
from perdure.worker.web.ui_streams.ag_ui import AgUiWriter
from perdure.worker.web.ui_streams.ai_sdk import AiSdkWriter
from perdure.worker.web.ui_streams.frames import UiFrames
from perdure.worker.web.ui_streams.writer import UiToolCall, UiWriter

MEDIA_TYPE = "text/event-stream"
#: Seconds between two comments on a silent stream. Proxies close a silent connection after a minute
#: or more.
HEARTBEAT_SECONDS = 15
#: Seconds for a client to read the sent bytes. A slower client is disconnected and may reconnect.
SEND_SECONDS = 30.0
#: Seconds that one stream lasts. After that the client has to authenticate again.
MAX_STREAM_SECONDS = 900.0
#: Maximum number of events in one list.
MAX_EVENTS = 1000

RESPONSES: dict[int | str, dict[str, Any]] = {
    **problems("invalid-request", "invalid-input", "run-not-found", "damaged-run"),
    200: {
        "description": "The events, oldest first. The response is a stream of server-sent events "
        "if the request accepts text/event-stream, else a list.",
        "content": {MEDIA_TYPE: {"schema": {"type": "string"}}},
    },
    204: {
        "description": "Only for streams: no event will follow. An EventSource that receives this "
        "does not reconnect."
    },
}
#: Responses of a stream that is never a list.
STREAM_RESPONSES: dict[int | str, dict[str, Any]] = {
    **RESPONSES,
    200: {
        "description": "A stream of server-sent events.",
        "content": {
            MEDIA_TYPE: {
                "schema": {
                    "type": "object",
                    "properties": {name: {"type": "string"} for name in ("id", "event", "data")},
                }
            }
        },
    },
}

#: Writers of streams for chat interfaces, by their name in a request.
WRITERS: dict[str, type[UiWriter]] = {"ai-sdk": AiSdkWriter, "ag-ui": AgUiWriter}

LastEventId = Annotated[
    str | None, Header(description="As `after`, sent by an EventSource. It overrides `after`.")
]


class EventStream(Response):
    """The response class of routes that stream events. Only OpenAPI uses it, for the media type."""

    media_type = MEDIA_TYPE


event_router = resource_router("runs")


@event_router.get(
    "/runs/{run_id}/events",
    operation_id="get_events",
    response_model=Events,
    responses=RESPONSES,
)
async def get_events(
    request: Request,
    run_id: RunId,
    runs: Runs,
    services: RouteServices,
    after: Annotated[
        str | None, Query(description="An event's id. Only later events are returned.")
    ] = None,
    last_event_id: LastEventId = None,
    follow: Annotated[
        bool,
        Query(description="Only for streams: continue with new events until the run has ended."),
    ] = True,
    seconds: Annotated[
        float,
        Query(
            gt=0,
            le=MAX_STREAM_SECONDS,
            description="Only for streams: maximum duration in seconds.",
        ),
    ] = MAX_STREAM_SECONDS,
    limit: Annotated[
        int, Query(ge=1, le=MAX_EVENTS, description="Only for lists: maximum number of events.")
    ] = MAX_EVENTS,
    latest: Annotated[
        bool, Query(description="Only for lists without `after`: return the newest events.")
    ] = False,
    before: Annotated[
        str | None,
        Query(description="With `latest`: an event's id. Only earlier events are returned."),
    ] = None,
) -> Response:
    """Return the events of a run, oldest first, as a list or as a stream of server-sent events.

    In a stream, `id` is the event's id, `event` its type, and `data` the event as JSON. A
    client that lost its connection continues with `Last-Event-ID`, on this server or another
    one. It misses no event and gets none twice. If events that were asked for are gone, the
    first one is of type `trimmed`. After the last event of a run that has ended,
    the stream sends `event: end`. A client that then asks again gets 204.
    """
    after_id = last_event_id or after
    if latest and after_id is None:
        events_page = await run_in_threadpool(runs.latest_events, run_id, limit, before)
        return Json(
            {
                "events": [event.to_dict() for event in events_page],
                "more": len(events_page) == limit,
            }
        )
    if MEDIA_TYPE not in request.headers.get("accept", ""):
        events_read = await run_in_threadpool(read_events, runs, run_id, after_id, limit)
        return Json(
            {
                "events": [event.to_dict() for event in events_read.items],
                "more": len(events_read.items) == limit,
            }
        )
    return await streamed(EventSource(runs, run_id, after_id), services.hub, follow, seconds)


@event_router.get(
    "/runs/{run_id}/stream",
    operation_id="get_stream",
    response_class=EventStream,
    responses=STREAM_RESPONSES,
)
async def get_stream(
    request: Request,
    run_id: RunId,
    runs: Runs,
    services: RouteServices,
    after: Annotated[
        str | None, Query(description="An item's id. Only later items are returned.")
    ] = None,
    last_event_id: LastEventId = None,
    follow: Annotated[
        bool,
        Query(
            description="If the request accepts text/event-stream: continue with new items "
            "until the run has ended."
        ),
    ] = True,
    seconds: Annotated[
        float,
        Query(gt=0, le=MAX_STREAM_SECONDS, description="Maximum duration in seconds."),
    ] = MAX_STREAM_SECONDS,
    form: Annotated[
        Literal["perdure", "ai-sdk", "ag-ui"],
        Query(
            alias="format",
            description="`ai-sdk`: as a UI message stream of Vercel's AI SDK. `ag-ui`: as "
            "events of AG-UI. Both end when the run asks a person, too.",
        ),
    ] = "perdure",
) -> Response:
    """Return the events of a run, and between them the text that its rounds show meanwhile.

    It is a stream of server-sent events, as of `/events`. The event `text` has a piece of text
    (`data.text`) that follows the text of its step so far. `retracted` says that the text of a
    step so far is void, because the attempt that has shown it was given up. The text of a step
    is final with the event `committed`. A client that lost its connection continues with
    `Last-Event-ID`, and ends up with the same text.
    """
    source = TextSource(runs, run_id, last_event_id or after)
    follow = follow and MEDIA_TYPE in request.headers.get("accept", "")
    if form in WRITERS:
        return await streamed_ui(runs, services.hub, source, WRITERS[form](), follow, seconds)
    return await streamed(source, services.hub, follow, seconds)


async def streamed(source: Source[T], hub: EventHub, follow: bool, seconds: float) -> Response:
    """Return a response that streams a run's items.

    The items are server-sent events.

    Returns:
        The stream. 204 without a body if no item is stored after the read position and none will
        follow: the run has ended, or ``follow`` is false.
    """
    first = await run_in_threadpool(source.read)
    if not first.items and (first.ended or not follow):
        return Response(status_code=204)
    content = stream(watch(source, hub, first, follow, seconds))
    return EventSourceResponse(content, ping=HEARTBEAT_SECONDS, send_timeout=SEND_SECONDS)


async def streamed_ui(
    runs: AuthorizedClient,
    hub: EventHub,
    source: TextSource,
    writer: UiWriter,
    follow: bool,
    seconds: float,
    calls: Sequence[UiToolCall] = (),
    begin_after: str | None = None,
) -> Response:
    """Return a response that streams a run to a chat interface.

    Args:
        writer: The writer of the chat interface's protocol.
        calls: See ``UiFrames``.
        begin_after: See ``UiFrames``.
    """
    first = await run_in_threadpool(source.read)
    frames = UiFrames(runs, source, writer, calls, begin_after)
    content = frames.stream(hub, first, follow, seconds)
    return EventSourceResponse(
        content,
        headers=writer.headers,
        ping=HEARTBEAT_SECONDS,
        send_timeout=SEND_SECONDS,
        sep="\n",  # Clients of AG-UI split events at this line break only.
    )


async def stream(watched: AsyncGenerator[Sequence[T] | StreamEnd]) -> AsyncIterator[bytes]:
    """Yield the batches of ``watch`` as server-sent events.

    A StreamEnd becomes the event ``end`` with the reason.
    """
    # Sent at once, so that the client of a silent run knows that it is connected.
    yield b": connected\n\n"
    async with aclosing(watched):
        async for item in watched:
            if isinstance(item, StreamEnd):
                yield format_sse_event(event="end", data_str=json.dumps({"reason": item.value}))
            else:
                yield b"".join(map(frame, item))


def frame(event: Event | StreamItem) -> bytes:
    """Return a stream item as a server-sent event."""
    return format_sse_event(id=event.id, event=event.type, data_str=json.dumps(event.to_dict()))
