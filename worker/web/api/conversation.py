"""Routes of a live run's signals, replies to signals, and values."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import Path, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from perdure.worker.domain.signal import SignalReply
from perdure.worker.errors import ValueNotFound
from perdure.worker.operations.intervals import pauses
from perdure.worker.web.api.requests import Signal
from perdure.worker.web.api.responses import NamedValue
from perdure.worker.web.api.routes import (
    BODY_PROBLEMS,
    CHANGE_PROBLEMS,
    RunId,
    problems,
    resource_router,
)
from perdure.worker.web.api.runs import STATE_PROBLEMS, Key
from perdure.worker.web.auth.permissions import AuthorizedClient, Runs
from perdure.worker.web.json_body import Json

conversation_router = resource_router("runs")

Name = Annotated[str, Path(description="Name of the signal.")]
Wait = Annotated[
    float, Query(ge=0.0, le=30.0, description="Seconds to wait until there is something to return.")
]
NOT_YET: dict[int | str, dict[str, Any]] = {
    202: {
        "model": SignalReply,
        "description": "There is no reply yet. `Location`: where to read one.",
    }
}


@conversation_router.post(
    "/runs/{run_id}/asks/{name}",
    operation_id="ask_run",
    response_model=SignalReply,
    responses=NOT_YET | problems(
        *BODY_PROBLEMS, *CHANGE_PROBLEMS, *STATE_PROBLEMS, "invalid-input", "unstorable-value",
        "conflict", "mailbox-full",
    ),
)  # fmt: skip
async def ask_run(
    request: Request,
    run_id: RunId,
    name: Name,
    runs: Runs,
    body: Signal | None = None,
    wait: Wait = 0.0,
    idempotency_key: Key = None,
) -> Response:
    """Send a signal that wants a reply, and wait for the reply.

    With an `Idempotency-Key`, the call can be repeated safely.
    """
    payload = None if body is None else body.payload
    receipt = await run_in_threadpool(runs.signal, run_id, name, payload, key=idempotency_key)
    return await _reply(request, runs, run_id, name, receipt.number, wait)


@conversation_router.get(
    "/runs/{run_id}/asks/{name}/{number}",
    operation_id="get_reply",
    response_model=SignalReply,
    responses=NOT_YET | problems("invalid-request", *STATE_PROBLEMS, "invalid-input"),
)
async def get_reply(
    request: Request,
    run_id: RunId,
    name: Name,
    number: Annotated[int, Path(ge=1, le=10**9, description="The number of the signal.")],
    runs: Runs,
    wait: Wait = 0.0,
) -> Response:
    """Return a run's reply to a signal.

    If there is no reply after `wait` seconds, the status is 202, and `replied` is false.
    """
    return await _reply(request, runs, run_id, name, number, wait)


async def _reply(
    request: Request, runs: AuthorizedClient, run_id: str, name: str, number: int, wait: float
) -> Response:
    reply = await run_in_threadpool(runs.reply, run_id, number, name)
    for pause in pauses(wait):
        if reply.replied:
            break
        await asyncio.sleep(pause)
        reply = await run_in_threadpool(runs.reply, run_id, number, name)
    if reply.replied:
        return Json(reply.to_dict())
    path = request.url.path.partition("/asks/")[0]
    where = f"{path}/asks/{quote(name, safe='')}/{number}"
    return Json(reply.to_dict(), 202, headers={"Location": where})


@conversation_router.get(
    "/runs/{run_id}/signals",
    operation_id="list_unread_signals",
    response_model=dict[str, int],
    response_description="How many are unread, by name.",
    responses=problems("run-not-found", "damaged-run"),
)
def list_unread_signals(run_id: RunId, runs: Runs) -> Response:
    """Return how many signals of each name no round of the run has used yet."""
    return Json(runs.unread(run_id))


@conversation_router.get(
    "/runs/{run_id}/values",
    operation_id="list_values",
    response_model=dict[str, Any],
    response_description="The values, by name.",
    responses=problems("run-not-found", "damaged-run"),
)
def list_values(run_id: RunId, runs: Runs) -> Response:
    """Return the values that the run's rounds have returned so far, as of its last commit."""
    return Json(runs.values(run_id))


@conversation_router.get(
    "/runs/{run_id}/values/{name:rest}",
    operation_id="get_value",
    response_model=NamedValue,
    responses=problems("invalid-request", "run-not-found", "value-not-found", "damaged-run"),
)
async def get_value(
    run_id: RunId,
    name: Annotated[str, Path(description="The value's name.")],
    runs: Runs,
    wait: Wait = 0.0,
) -> Response:
    """Return one of the values that the run's rounds have returned."""
    for pause in pauses(wait):
        try:
            return Json({"name": name, "value": await run_in_threadpool(runs.value, run_id, name)})
        except ValueNotFound:
            await asyncio.sleep(pause)
    return Json({"name": name, "value": await run_in_threadpool(runs.value, run_id, name)})
