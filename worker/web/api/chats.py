"""Routes for chat interfaces: Vercel's AI SDK (``useChat``) and AG-UI (``HttpAgent``)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any

from fastapi import Path, Query, Response
from starlette.concurrency import run_in_threadpool

from perdure.worker.domain.interrupt import PendingInterrupt
from perdure.worker.domain.run import RunStatus
from perdure.worker.errors import RunNotFound, Stale, Taken, UnsupportedPart
from perdure.worker.operations.inbox import QUESTION_SHOWN
from perdure.worker.presentation.text import plain
from perdure.worker.web.api.events import (
    MAX_STREAM_SECONDS,
    STREAM_RESPONSES,
    EventStream,
    streamed_ui,
)
from perdure.worker.web.api.routes import (
    BODY_PROBLEMS,
    CHANGE_PROBLEMS,
    problems,
    resource_router,
)
from perdure.worker.web.auth import AuthorizedClient, Scope
from perdure.worker.web.auth.permissions import Runs
from perdure.worker.web.event_stream import TextSource
from perdure.worker.web.question_facts import (
    answered_question,
    how_answered,
    is_paused_after_node,
)
from perdure.worker.web.services import RouteServices
from perdure.worker.web.ui_streams.ag_ui import AgUiWriter
from perdure.worker.web.ui_streams.ag_ui_requests import AgUiInput, of_ag_ui
from perdure.worker.web.ui_streams.ai_sdk import AiSdkWriter
from perdure.worker.web.ui_streams.ai_sdk_requests import AiSdkChat, of_ai_sdk
from perdure.worker.web.ui_streams.answers import (
    ChatAnswer,
    answer_to,
    decided_calls,
    is_answer_of,
)
from perdure.worker.web.ui_streams.frames import behind, response_start
from perdure.worker.web.ui_streams.requests import ChatMessage, key_of, topic_of
from perdure.worker.web.ui_streams.writer import UiToolCall

FlowOfChat = Annotated[str, Path(description="The flow that answers.", examples=["assistant"])]
Follow = Annotated[bool, Query(description="Continue until the response ends.")]
Seconds = Annotated[
    float, Query(gt=0, le=MAX_STREAM_SECONDS, description="Maximum duration in seconds.")
]
RESPONSES: dict[int | str, dict[str, Any]] = {
    **problems(
        *BODY_PROBLEMS, *CHANGE_PROBLEMS, "unknown-flow", "invalid-input", "unsupported-part",
        "unstorable-value", "run-not-found", "invalid-transition", "stale", "conflict", "taken",
        "damaged-run", "unsafe-server",
    ),
    200: STREAM_RESPONSES[200],
}  # fmt: skip

chat_router = resource_router("chats")


@chat_router.post(
    "/flows/{name}/ai-sdk",
    operation_id="chat_with_ai_sdk",
    response_class=EventStream,
    responses=RESPONSES,
)
async def chat_with_ai_sdk(
    name: FlowOfChat,
    body: AiSdkChat,
    runs: Runs,
    services: RouteServices,
    follow: Follow = True,
    seconds: Seconds = MAX_STREAM_SECONDS,
) -> Response:
    """Answer a message of a chat with a run, as a UI message stream of Vercel's AI SDK.

    `useChat` sends these requests. The last message of the person is the run's goal, and its files
    are those of the run. The same message in the same chat makes one run. If a run of the chat is
    queued or running, it gets the message instead. An approval, or a text after a question of a
    run, answers the question, and the run goes on. If the question is no longer open, the text is a
    message of the chat.
    """
    said = of_ai_sdk(body)
    is_anew = body.trigger == "regenerate-message"
    key: str | None = None
    message = said if isinstance(said, ChatMessage) else said.message
    if message is not None:
        again = [body.trigger, body.message_id, body.inputs]
        key = key_of("ai-sdk", name, body.id, message, again)
        if is_anew and body.message_id is None:
            key = None  # A second wish for another answer looks like a repeated request.
    found = await run_in_threadpool(respond, runs, name, body.id, said, key, body.inputs, is_anew)
    run_id, after, calls = found
    source = TextSource(runs, run_id, after)
    return await streamed_ui(runs, services.hub, source, AiSdkWriter(), follow, seconds, calls)


@chat_router.get(
    "/flows/{name}/ai-sdk/{chat}/stream",
    operation_id="resume_ai_sdk_chat",
    response_class=EventStream,
    responses={
        **problems("invalid-request", "damaged-run"),
        200: STREAM_RESPONSES[200],
        204: {"description": "No run of the chat is working."},
    },
)
async def resume_ai_sdk_chat(
    name: FlowOfChat,
    chat: Annotated[str, Path(description="The id of the chat.")],
    runs: Runs,
    services: RouteServices,
    follow: Follow = True,
    seconds: Seconds = MAX_STREAM_SECONDS,
) -> Response:
    """Stream the response of a chat's queued or running run, from its beginning.

    `resumeStream` of the AI SDK sends this request.
    """
    run_id = await run_in_threadpool(_working_run, runs, name, chat)
    if run_id is None:
        return Response(status_code=204)
    start = await run_in_threadpool(response_start, runs, run_id)
    source = TextSource(runs, run_id, None)
    return await streamed_ui(
        runs, services.hub, source, AiSdkWriter(), follow, seconds, begin_after=start
    )


@chat_router.post(
    "/flows/{name}/ag-ui",
    operation_id="chat_with_ag_ui",
    response_class=EventStream,
    responses=RESPONSES,
)
async def chat_with_ag_ui(
    name: FlowOfChat,
    body: AgUiInput,
    runs: Runs,
    services: RouteServices,
    follow: Follow = True,
    seconds: Seconds = MAX_STREAM_SECONDS,
) -> Response:
    """Answer a message of a conversation with a run, as events of AG-UI.

    An `HttpAgent` sends these requests. The last message of the person is the run's goal, and its
    files are those of the run. The same message in the same thread makes one run. If a run of the
    thread is queued or running, it gets the message instead, and the response is the part of its
    stream that follows. `resume` answers a question of a run, the run goes on, and `messages` is
    not read. A text for a question that is no longer open is a message. Tools, state and context of
    the client are not used.
    """
    said = of_ag_ui(body)
    inputs = None if body.forwarded_props is None else body.forwarded_props.inputs
    key: str | None = None
    message = said if isinstance(said, ChatMessage) else said.message
    if message is not None:
        key = key_of("ag-ui", name, body.thread_id, message, inputs)
    found = await run_in_threadpool(respond, runs, name, body.thread_id, said, key, inputs)
    messages = [message.model_dump(exclude_unset=True) for message in body.messages]
    writer = AgUiWriter(body.thread_id, body.run_id, messages)
    run_id, after, calls = found
    source = TextSource(runs, run_id, after)
    return await streamed_ui(runs, services.hub, source, writer, follow, seconds, calls)


def respond(
    runs: AuthorizedClient,
    flow: str,
    chat_id: str,
    said: ChatMessage | ChatAnswer,
    key: str | None,
    inputs: dict[str, Any] | None,
    is_anew: bool = False,
) -> tuple[str, str | None, Sequence[UiToolCall]]:
    """Carry out a chat's message or answer.

    A message submits a run, or goes to the chat's active run. An answer goes to the run that asked.
    An active run is queued or running. A text for a question that is no longer open is a message of
    the chat. But if the question was answered with this same text, nothing is sent, and the
    response continues after that answer.

    Args:
        flow: The name of the flow of a new run.
        said: The message, or the answer to a run's question.
        key: The idempotency key of the message. None: each call submits a run.
        inputs: The inputs of a new run.
        is_anew: Whether the person asks for another answer to the same message. If so, a run is
            submitted even if a run of the chat is active.

    Returns:
        The run's id. The position in the run's stream after which the response begins (None: the
        beginning). The client's tool calls whose results the response may contain.

    Raises:
        Stale: The question is no longer open, and the answer is not a text.
        Taken: The run of the chat waits for a person, or is of another flow.
        RunNotFound: The run that asked was deleted or belongs to another owner, and the answer is
            not a text.
        UnsupportedPart: The message has files, and a question or an active run takes only a text.
    """
    runs.caller.require(Scope.READ)  # Else the run would be submitted, and its response refused.
    if isinstance(said, ChatAnswer):
        try:
            return _answer(runs, said)
        except (Stale, RunNotFound):
            if said.message is None:
                raise
            said = said.message
    topic = topic_of(chat_id)
    if key is None or is_anew:
        run = runs.submit(
            flow,
            said.text,
            inputs,
            idempotency_key=key,
            thread_id=chat_id,
            topic=topic,
            files=said.files,
        )
        return run.id, None, ()
    try:
        sent = runs.send_to_chat(topic, chat_id, said.text, flow, inputs, key, said.files)
    except Taken as taken:
        raise _taken(runs, taken) from taken
    if sent.started:
        return sent.run_id, None, ()
    newest = runs.latest_events(sent.run_id, 1)
    return sent.run_id, behind(newest[-1].id) if newest else None, ()


def _answer(
    runs: AuthorizedClient, said: ChatAnswer
) -> tuple[str, str | None, Sequence[UiToolCall]]:
    """Answer a run's question. For the returned values see ``respond``.

    The returned run is the one whose stream showed the question, even if a run below it asked. The
    response begins at the answer. At a pause after a node, any answer continues the run. If the
    question already has this same answer, nothing changes.

    Raises:
        Stale: The question is no longer open, and has another answer.
        RunNotFound: The run that asked was deleted, or belongs to another owner.
        UnsupportedPart: The message with the answer has files.
    """
    said = _to_open_question(runs, said)
    asking, interrupt = said.reference.asking, said.reference.interrupt
    run = runs.get(asking)
    pending = PendingInterrupt.of(run)
    if pending is not None and pending.id == interrupt:
        if said.message is not None and said.message.files:
            raise UnsupportedPart(
                f"run {asking} has asked a question, and takes a text as its answer, but the "
                f"message has {len(said.message.files)} file(s), the first "
                f"{said.message.files[0].name!r}. Send the file in a message of its own when the "
                "run has ended"
            )
        answer = answer_to(pending, said)
        if is_paused_after_node(run):
            answer = {}
        approval = (pending.data or {})["approval"] if pending.kind == "approval" else None
        calls = decided_calls(said, approval, answer.get("answer"))
        with suppress(Stale):  # Another answer came first.
            runs.resume(asking, interrupt=interrupt, **answer)
            start = response_start(runs, asking)
            return said.reference.run_id, None if start is None else behind(start), calls
    answered = answered_question(runs, asking, interrupt)
    if answered is not None and is_answer_of(answered, said):
        calls = decided_calls(said, answered.approval, answered.resumed.data.get("answer"))
        return said.reference.run_id, behind(answered.resumed.id), calls
    how = "" if answered is None else f": {how_answered(answered.resumed)}"
    raise Stale(
        f"question {interrupt} of run {asking} is no longer open{how}. This answer changes "
        f"nothing. Read the run: perdure show {asking}"
    )


def _to_open_question(runs: AuthorizedClient, said: ChatAnswer) -> ChatAnswer:
    """Return the first of a request's answers whose question is open. If none is open: ``said``."""
    if not said.others:
        return said
    for each in (said, *said.others):
        with suppress(RunNotFound):
            pending = PendingInterrupt.of(runs.get(each.reference.asking))
            if pending is not None and pending.id == each.reference.interrupt:
                return each
    return said


def _taken(runs: AuthorizedClient, taken: Taken) -> Taken:
    """Return the error for a message that comes too early.

    The chat's run cannot get the message while it waits for a person.

    Returns:
        An error that quotes the open question. ``taken`` unchanged if the run has no open question
        or was deleted.
    """
    try:
        pending = PendingInterrupt.of(runs.get(taken.run_id))
    except RunNotFound:
        return taken
    if pending is None:
        return taken
    return Taken(
        f"run {pending.run_id} of this chat waits for a person ({pending.kind}), and hears no "
        f"message before it is answered: {plain(pending.question, QUESTION_SHOWN)} To answer: "
        f"POST /runs/{pending.run_id}/resume, or {pending.how_in_one_line()}",
        taken.run_id,
    )


def _working_run(runs: AuthorizedClient, flow: str, chat_id: str) -> str | None:
    """Return the id of the chat's active run.

    None if the chat has no live run, or if it is of another flow or neither queued nor running.
    """
    run_id = runs.run_of_topic(topic_of(chat_id))
    if run_id is None:
        return None
    try:
        run = runs.get(run_id)
    except RunNotFound:
        return None
    is_working = run.flow == flow and run.status in (RunStatus.QUEUED, RunStatus.RUNNING)
    return run_id if is_working else None
