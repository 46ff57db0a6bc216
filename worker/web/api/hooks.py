"""The route of hooks: a signal to one run from a service that has no token."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Body, Header, Path, Response

from perdure.worker.operations.signals import signal_by_hook
from perdure.worker.web.api.responses import HookReceipt
from perdure.worker.web.api.routes import (
    BODY_PROBLEMS,
    CHANGE_PROBLEMS,
    problem_responses,
    resource_router,
)
from perdure.worker.web.api.runs import Key
from perdure.worker.web.json_body import Json
from perdure.worker.web.problems import REQUEST_PROBLEMS, details
from perdure.worker.web.services import RouteServices

WebhookId = Annotated[
    str | None,
    Header(
        alias="webhook-id",
        min_length=1,
        max_length=900,
        description="The event's id, as Standard Webhooks send it. Used without `Idempotency-Key`.",
    ),
]

#: Its route has no caller: the secret in the path gives the permission.
hook_router = resource_router("runs")


@hook_router.post(
    "/hooks/{run}/{name}/{secret}",
    operation_id="call_hook",
    status_code=202,
    response_model=HookReceipt,
    responses=problem_responses(
        *BODY_PROBLEMS, *CHANGE_PROBLEMS, "no-such-path", "invalid-input", "unstorable-value",
        "conflict", "mailbox-full", "damaged-run", "no-server",
    ),
)  # fmt: skip
def call_hook(
    run: Annotated[str, Path(description="The run's id.")],
    name: Annotated[str, Path(description="Name of the signal.")],
    secret: Annotated[str, Path(description="The hook's secret.")],
    services: RouteServices,
    payload: Annotated[Any, Body(description="The signal's payload, as any JSON.")] = None,
    idempotency_key: Key = None,
    webhook_id: WebhookId = None,
) -> Response:
    """Send a signal by a hook, whose address a node got from `context.hook`. Needs no token.

    Once this call has returned, the signal is stored. Whatever is wrong with the address, the
    response is one and the same 404.
    """
    key = idempotency_key or webhook_id
    if not signal_by_hook(services.client._session, run, name, secret, payload, key):
        return details(404, *REQUEST_PROBLEMS[404], "no such hook, or its run has ended")
    return Json({"status": "stored"}, 202)
