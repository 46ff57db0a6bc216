"""Routes of conversations: send a message to a thread, and read its messages."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Query, Response
from pydantic import Field

from perdure.flows.core.files import MOST_FILES, file_from, files_of
from perdure.worker.domain.sent_message import SentMessage
from perdure.worker.errors import UnknownFlow
from perdure.worker.web.api.requests import (
    Amounts,
    Asked,
    FlowName,
    Known,
    SubmittedFile,
)
from perdure.worker.web.api.responses import Message
from perdure.worker.web.api.routes import (
    BODY_PROBLEMS,
    CHANGE_PROBLEMS,
    problems,
    resource_router,
)
from perdure.worker.web.api.runs import Key
from perdure.worker.web.auth.permissions import Runs
from perdure.worker.web.json_body import Json
from perdure.worker.web.problems import unknown_flow

threads_router = resource_router("threads")

Thread = Annotated[str, Path(description="The caller's name for the conversation.")]


class MessageToSend(Asked):
    """A message to a thread."""

    flow: FlowName | None = None
    """The flow of a new run, if no run of the thread is live. Without it, it is the flow of the
    thread's newest run."""
    text: str
    inputs: dict[str, Any] | None = None
    """The inputs of a new run."""
    labels: dict[str, str] | None = None
    """The labels of a new run."""
    budgets: Amounts | None = None
    """The budgets of a new run."""
    files: Annotated[list[SubmittedFile], Field(max_length=MOST_FILES)] | None = None
    """Pictures, documents and texts of a new run. A live run takes no files: they are an error."""


class NoParameters(Known):
    """A route without parameters."""


@threads_router.post(
    "/threads/{thread}/messages",
    operation_id="send_message",
    status_code=202,
    response_model=SentMessage,
    responses=problems(
        *BODY_PROBLEMS, *CHANGE_PROBLEMS, "invalid-input", "unstorable-value", "unknown-flow",
        "unsupported-part", "conflict", "mailbox-full", "damaged-run",
    ),
)  # fmt: skip
def send_message(
    thread: Thread, body: MessageToSend, runs: Runs, idempotency_key: Key = None
) -> Response:
    """Send a message to a thread of the caller's.

    A live run of the thread gets the message. If no run of the thread is live, a new run begins
    with the message as its goal, and knows the earlier messages. With an `Idempotency-Key`, the
    call can be repeated safely.
    """
    try:
        files = files_of([file_from(each.model_dump()) for each in body.files or ()])
        options = body.model_dump(exclude_none=True, exclude={"files"})
        sent = runs.send(thread, key=idempotency_key, files=files, **options)
    except UnknownFlow as error:
        return unknown_flow(error)
    return Json(sent.to_dict(), 202)


@threads_router.get(
    "/threads/{thread}/messages",
    operation_id="list_messages",
    response_model=list[Message],
    response_description="The messages, oldest first.",
    responses=problems("invalid-request", "invalid-input", "damaged-run"),
)
def list_messages(
    thread: Thread, runs: Runs, nothing: Annotated[NoParameters, Query()]
) -> Response:
    """Return the messages that were sent to a thread of the caller's, and its runs' answers."""
    return Json(
        [
            {"role": each.role, "text": each.text, "run_id": each.run_id}
            for each in runs.conversation(thread)
        ]
    )
