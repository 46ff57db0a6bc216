"""Routes of OpenAI's API: responses, chat completions and models."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from perdure.flows.core.errors import InvalidInput
from perdure.worker.domain.interrupt import PendingInterrupt
from perdure.worker.domain.run import Run, RunStatus
from perdure.worker.domain.token import Scope
from perdure.worker.errors import InvalidTransition, RunNotFound, Stale
from perdure.worker.web.api.runs import Key
from perdure.worker.web.auth import AuthorizedClient
from perdure.worker.web.auth.permissions import Runs
from perdure.worker.web.event_hub import EventHub
from perdure.worker.web.exposed_flows import (
    answer_text,
    answerable_run,
    exposed_flow,
    exposed_flows,
    exposed_run,
    settled,
)
from perdure.worker.web.json_body import Json
from perdure.worker.web.openai_api.documents import chat_document, response_document
from perdure.worker.web.openai_api.errors import OpenAIRoute, error_response, refused_retry
from perdure.worker.web.openai_api.files import files_in, with_earlier_files
from perdure.worker.web.openai_api.requests import (
    CreateChatCompletion,
    CreateResponse,
    OpenAIRequest,
    PersonsOutput,
    goal_of,
    message_beside,
    outputs_of,
    read_output,
)
from perdure.worker.web.openai_api.streams import chat_error, stream_chat, stream_response
from perdure.worker.web.question_facts import (
    answer_event,
    how_answered,
    is_answer_known,
    is_paused_after_node,
    open_question,
    pending,
)
from perdure.worker.web.services import RouteServices

#: Seconds that a request waits for a run. OpenAI's client gives up after 600.
MOST_WAIT = 570.0

#: OpenAI's API. It is not in the OpenAPI document of the HTTP API: OpenAI describes it.
openai_router = APIRouter(
    prefix="/v1", route_class=OpenAIRoute, default_response_class=Json, include_in_schema=False
)


@openai_router.post("/responses")
async def create_response(
    body: CreateResponse,
    request: Request,
    runs: Runs,
    services: RouteServices,
    idempotency_key: Key = None,
) -> Response:
    """Start a run, or answer a question of a run, and return the run as a response.

    A request that ends with the output of a question's function call answers the question. Without
    ``background`` and ``stream``, the request waits up to MOST_WAIT seconds until the run ends or
    asks a person something.
    """
    output = await run_in_threadpool(_new_answer, runs, body.input)
    if output is None and (refused := refused_retry(request)) is not None:
        return refused
    if output is not None:
        run = await run_in_threadpool(_answer, runs, output, body.previous_response_id)
    else:
        run = await run_in_threadpool(_start_response, runs, body, idempotency_key)
    if body.stream:
        return await stream_response(runs, services.hub, run)
    if not body.background:
        run = await settled(runs, services.hub, run.id, MOST_WAIT)
    waiting = await run_in_threadpool(open_question, runs, run)
    return Json(response_document(run, waiting))


@openai_router.get("/responses/{run_id}")
async def get_response(
    run_id: str,
    runs: Runs,
    services: RouteServices,
    stream: bool = False,
    starting_after: Annotated[int | None, Query(ge=0, lt=2**53)] = None,
) -> Response:
    """Return a run as a response, or stream the events of the response.

    Args:
        starting_after: Number of the event after which the stream begins. None: it begins with the
            first event. Ignored without ``stream``.
    """
    run = await run_in_threadpool(exposed_run, runs, "openai", run_id)
    if stream:
        return await stream_response(runs, services.hub, run, starting_after)
    waiting = await run_in_threadpool(open_question, runs, run)
    return Json(response_document(run, waiting))


@openai_router.post("/responses/{run_id}/cancel")
def cancel_response(run_id: str, runs: Runs) -> Response:
    """Stop a run, and return it as a response.

    The run's round in flight may finish.
    """
    exposed_run(runs, "openai", run_id)
    runs.request_stop(run_id, "graceful")
    run = runs.get(run_id)
    return Json(response_document(run, open_question(runs, run)))


@openai_router.post("/chat/completions")
async def create_chat_completion(
    body: CreateChatCompletion,
    request: Request,
    runs: Runs,
    services: RouteServices,
    idempotency_key: Key = None,
) -> Response:
    """Start a run, or answer a question of a run, and return the run as a chat completion.

    A request that ends with the output of a question's tool call answers the question. The request
    waits up to MOST_WAIT seconds until the run ends or asks a person something.
    """
    output = await run_in_threadpool(_new_answer, runs, body.messages)
    if output is None and (refused := refused_retry(request)) is not None:
        return refused
    if output is not None:
        run = await run_in_threadpool(_answer, runs, output)
    else:
        run = await run_in_threadpool(
            _start, runs, body, body.messages, goal_of(body.messages), idempotency_key
        )
    end = partial(_end_of, runs, services.hub, run.id)
    if body.stream:
        return stream_chat(run, end, body.includes_usage, runs.caller)
    run, waiting = await end()
    error = chat_error(run, waiting)
    return Json(chat_document(run, waiting)) if error is None else error_response(*error)


@openai_router.get("/models")
def list_models(runs: Runs) -> Response:
    """List the flows that are exposed to OpenAI's clients, as models."""
    flows = exposed_flows(runs, "openai")
    return Json({"object": "list", "data": [_model(name) for name in sorted(flows)]})


@openai_router.get("/models/{name}")
def get_model(name: str, runs: Runs) -> Response:
    """Return a flow that is exposed to OpenAI's clients, as a model."""
    exposed_flow(runs, "openai", name)
    return Json(_model(name))


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "perdure"}


async def _end_of(
    runs: AuthorizedClient, hub: EventHub, run_id: str
) -> tuple[Run, PendingInterrupt | None]:
    """Wait up to MOST_WAIT seconds until a run ends or asks a person something.

    Returns:
        The run, and the open question of the run or of a run below it. None if no question is open.
    """
    run = await settled(runs, hub, run_id, MOST_WAIT)
    return run, await run_in_threadpool(open_question, runs, run)


def _start(
    runs: AuthorizedClient,
    body: OpenAIRequest,
    items: str | list[dict[str, Any]],
    goal: str,
    key: str | None,
    earlier: Run | None = None,
) -> Run:
    """Submit the run that a request starts.

    Args:
        earlier: The run whose conversation goes on. The new run gets its thread, and its files if
            it is a run of the same flow. Another flow may not accept them.
        items: The items of the request, for their files.
        key: The idempotency key. None: each call submits a run.

    Raises:
        Forbidden: The caller lacks the scope ``submit`` or ``read``.
        UnknownFlow: The flow is not known, or is not exposed to OpenAI's clients.
    """
    exposed_flow(runs, "openai", body.model)
    files = files_in(items)
    if earlier is not None and earlier.flow == body.model:
        files = with_earlier_files(runs, earlier, files)
    return runs.submit(
        body.model,
        goal,
        body.inputs,
        labels=body.metadata,
        idempotency_key=key,
        thread_id=None if earlier is None else earlier.state.thread_id or earlier.id,
        files=files,
    )


def _start_response(runs: AuthorizedClient, body: CreateResponse, key: str | None) -> Run:
    if body.previous_response_id is None:
        return _start(runs, body, body.input, goal_of(body.input, body.instructions), key)
    earlier = exposed_run(runs, "openai", body.previous_response_id)
    if earlier.status is not RunStatus.COMPLETED:
        question = open_question(runs, earlier)
        asks = (
            f" It waits for the output of call {question.run_id}/{question.id}." if question else ""
        )
        raise InvalidTransition(
            f"run {earlier.id} is {earlier.status.value}, so no conversation goes on from it.{asks}"
        )
    before = earlier.goal, answer_text(earlier)
    goal = goal_of(body.input, body.instructions, before)
    return _start(runs, body, body.input, goal, key, earlier)


def _new_answer(runs: AuthorizedClient, items: str | list[dict[str, Any]]) -> PersonsOutput | None:
    """Return the answer to a run's question in a request.

    If the request also has a new message, an answer to a question that is no longer open is a part
    of the conversation so far.

    Returns:
        None if the request starts a run.

    Raises:
        InvalidInput: The request ends with outputs that are not the answer to one question, or it
            has a new message beside the answer to an open question.
    """
    outputs, has_message = outputs_of(items)
    if not has_message:
        return outputs[0] if outputs else None
    for output in outputs:
        try:
            answerable_run(runs, "openai", output.run_id)
            waiting = pending(runs.get(output.run_id))
        except RunNotFound:
            continue
        if waiting is not None and waiting.id == output.question:
            raise message_beside(output)
    return None


def _answer(runs: AuthorizedClient, output: PersonsOutput, previous: str | None = None) -> Run:
    """Answer a run's question, and return the run.

    The returned run is the one whose response showed the question, even if a run below it asked. A
    repeated answer changes nothing. At a pause after a node, any output continues the run.

    Args:
        previous: The id of the response that the client names as the previous one, or None.

    Raises:
        Forbidden: The caller lacks the scope ``read`` or ``answer``.
        InvalidInput: The output is not a valid answer to this question, or the previous response
            did not show the question.
        RunNotFound: Neither the run that asked nor a run above it is exposed.
        Stale: The question already has another answer.
    """
    runs.caller.require(Scope.READ)
    runs.caller.require(Scope.ANSWER)
    run = _shown_by(runs, output, previous)
    answer, add = read_output(output.text), None
    asking = runs.get(output.run_id)
    waiting = pending(asking)
    if waiting is None or waiting.id != output.question:
        _check_same(runs, output, answer)
        return run
    given = answer
    if waiting.kind == "budget":
        budget = str((waiting.data or {})["budget"])
        amounts = answer.get("add", answer) if isinstance(answer, dict) else answer
        given, add = None, amounts if isinstance(amounts, dict) else {budget: amounts}
    elif is_paused_after_node(asking) or (waiting.kind == "pause" and given == ""):
        given = None
    try:
        runs.resume(output.run_id, given, add, output.question)
    except Stale:
        _check_same(runs, output, answer)
    return runs.get(run.id)


def _shown_by(runs: AuthorizedClient, output: PersonsOutput, previous: str | None) -> Run:
    """Return the run whose response showed a question.

    The run has asked the question itself, or a run below it has.

    Args:
        output: The answer to the question.
        previous: The id of the response that the client names as the previous one. If it is None or
            the run that asked, the nearest exposed run is returned.

    Raises:
        InvalidInput: ``previous`` is neither the run that asked nor an exposed run above it.
        RunNotFound: Neither the run that asked nor a run above it is exposed.
    """
    run = answerable_run(runs, "openai", output.run_id)
    while previous not in (None, output.run_id, run.id):
        wrong = InvalidInput(
            f"the call was made by run {output.run_id}, whose question response {previous} did not "
            f"show; expected previous_response_id {run.id}"
        )
        parent = run.details.get("parent")
        if parent is None:
            raise wrong
        try:
            run = answerable_run(runs, "openai", parent)
        except RunNotFound:
            raise wrong from None
    return run


def _check_same(runs: AuthorizedClient, output: PersonsOutput, answer: Any) -> None:
    """Raise Stale if an answered question has another answer.

    If the stored answer is not known, nothing is raised: its event is gone, or does not show it
    (``is_answer_known``).
    """
    resumed = answer_event(runs, output.run_id, output.question)
    if resumed is None or not is_answer_known(resumed):
        return
    if resumed.data.get("answer") != answer:
        raise Stale(
            f"question {output.question} of run {output.run_id} is no longer open: "
            f"{how_answered(resumed)}. This answer does not count. GET "
            f"/v1/responses/{output.run_id} has the run"
        )
