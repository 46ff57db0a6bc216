"""Events: what happened to a run, as a list or as a stream of server-sent events that goes on as it happens."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.sse import format_sse_event
from sse_starlette import EventSourceResponse
from starlette.concurrency import run_in_threadpool

from worker.event import Event
from worker.web.api.models.run import Events
from worker.web.api.routing import RunId, problems, routed
from worker.web.bodies import Json
from worker.web.hub import Hub
from worker.web.permitted import Runs
from worker.web.watching import Ending, look, watch

MEDIA_TYPE = "text/event-stream"
#: Seconds between two comments while nothing happens: less than the patience of proxies, which is a minute or more.
HEARTBEAT_SECONDS = 15
#: Seconds for a reader to take what is sent. One who is slower is cut, and may come again.
SEND_SECONDS = 30.0
#: Seconds that one answer lasts: whoever watches for longer shows their token again.
LONGEST_SECONDS = 900.0
#: Events in one list.
MOST = 1000

RESPONSES: dict[int | str, dict[str, Any]] = {
    **problems("invalid-request", "invalid-input", "run-not-found", "damaged-run"),
    200: {
        "description": "The events, oldest first: a list, or a stream of server-sent events where text/event-stream is accepted.",
        "content": {MEDIA_TYPE: {"schema": {"type": "string"}}},
    },
    204: {"description": "Of a stream: no event follows. An EventSource that is told so does not connect again."},
}


def event_router(hub: Hub) -> APIRouter:
    """The route; what it streams is heard by ``hub``."""
    events = routed("runs")

    @events.get("/runs/{run_id}/events", operation_id="get_events", response_model=Events, responses=RESPONSES)
    async def get_events(
        request: Request,
        run_id: RunId,
        runs: Runs,
        after: Annotated[str | None, Query(description="The id of an event: only those behind it.")] = None,
        last_event_id: Annotated[str | None, Header(description="The same, as an EventSource sends it; it goes before `after`.")] = None,
        follow: Annotated[
            bool, Query(description="Of a stream: whether it goes on with what happens from now on, until the run has ended.")
        ] = True,
        seconds: Annotated[
            float, Query(gt=0, le=LONGEST_SECONDS, description="Of a stream: it ends after so long at the latest.")
        ] = LONGEST_SECONDS,
        limit: Annotated[int, Query(ge=1, le=MOST, description="Of a list: at most so many.")] = MOST,
        latest: Annotated[bool, Query(description="Of a list: the last ones, where `after` is not given.")] = False,
        before: Annotated[str | None, Query(description="With `latest`: the id of an event, only those before it.")] = None,
    ) -> Response:
        """What happened to a run, oldest first: a list, or a stream of server-sent events.

        In a stream, `id` is the event's id, `event` its type and `data` the event as JSON. It can be cut at any time, and goes on with
        `Last-Event-ID`, on this server or another one: nothing is missed and nothing comes twice. After the last event of a run that
        has ended comes `event: end`, and whoever asks again is answered 204.
        """
        place = last_event_id or after
        if latest and place is None:
            found = await run_in_threadpool(runs.latest_events, run_id, limit, before)
            return Json({"events": [event.to_dict() for event in found], "more": len(found) == limit})
        if MEDIA_TYPE not in request.headers.get("accept", ""):
            seen = await run_in_threadpool(look, runs, run_id, place, limit)
            return Json({"events": [event.to_dict() for event in seen.events], "more": len(seen.events) == limit})
        first = await run_in_threadpool(look, runs, run_id, place)
        if not first.events and (first.ended or not follow):
            return Response(status_code=204)
        content = stream(watch(runs, hub, run_id, place, first, follow, seconds))
        return EventSourceResponse(content, ping=HEARTBEAT_SECONDS, send_timeout=SEND_SECONDS)

    return events


async def stream(watched: AsyncGenerator[Sequence[Event] | Ending]) -> AsyncIterator[bytes]:
    """As it goes over the wire."""
    yield b": connected\n\n"  # whoever connects to a run that is silent learns so at once
    async with aclosing(watched):
        async for told in watched:
            if isinstance(told, Ending):
                yield format_sse_event(event="end", data_str=json.dumps({"reason": told.value}))
            else:
                yield b"".join(map(frame, told))


def frame(event: Event) -> bytes:
    """One event."""
    return format_sse_event(id=event.id, event=event.type, data_str=json.dumps(event.to_dict()))
