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
    """Start or continue a run, and return it as a response.

    A person's answer continues a run.
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
    """Return a run as a response, or stream it from an event on."""
    run = await run_in_threadpool(exposed_run, runs, "openai", run_id)
    if stream:
        return await stream_response(runs, services.hub, run, starting_after)
    waiting = await run_in_threadpool(open_question, runs, run)
    return Json(response_document(run, waiting))


@openai_router.post("/responses/{run_id}/cancel")
def cancel_response(run_id: str, runs: Runs) -> Response:
    """Stop a run. Its round in flight may finish."""
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
    """Start or continue a run, and return its chat completion.

    A person's answer continues a run.
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
    """List the flows that are exposed to OpenAI's clients."""
    flows = exposed_flows(runs, "openai")
    return Json({"object": "list", "data": [_model(name) for name in sorted(flows)]})


@openai_router.get("/models/{name}")
def get_model(name: str, runs: Runs) -> Response:
    """Return one of the flows that are exposed."""
    exposed_flow(runs, "openai", name)
    return Json(_model(name))


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "perdure"}


async def _end_of(
    runs: AuthorizedClient, hub: EventHub, run_id: str
) -> tuple[Run, PendingInterrupt | None]:
    """Wait until a run ends or asks a person. Return the run and its open question.

    The question may be one of a run below.
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
        earlier: The run whose conversation goes on. The new run gets its files and its thread.

    Raises:
        Forbidden: The caller may not submit, or may not read the run.
        UnknownFlow: The flow is not exposed.
    """
    exposed_flow(runs, "openai", body.model)
    files = files_in(items)
    return runs.submit(
        body.model,
        goal,
        body.inputs,
        labels=body.metadata,
        idempotency_key=key,
        thread_id=None if earlier is None else earlier.state.thread_id or earlier.id,
        files=files if earlier is None else with_earlier_files(runs, earlier, files),
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
    """Return the answer of a request to a run's question. None: the request starts a run.

    An answer beside a new message belongs to the conversation so far if its question is no longer
    open.

    Raises:
        InvalidInput: The outputs are not the answer to one question, or an open question is
            answered beside a new message.
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
    """Answer a run's question with the output of a function call, and return the run.

    For a question of a run below, return the run whose response showed the question. A repeated
    answer changes nothing. At a pause after a node, the run goes on whatever the output is.

    Args:
        previous: The response that the client names as the previous one.

    Raises:
        Forbidden: The caller may not answer.
        InvalidInput: The output is no answer to this question, or the question is not of the
            previous response.
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
    """Return the run whose response showed the question that an output answers.

    It is the run that asks, or a run above it.

    Args:
        previous: The response that the client names as the previous one. None, or the run that
            asks: the question was shown by the nearest exposed run.

    Raises:
        InvalidInput: The previous response is of no exposed run at or above the run that asks.
        RunNotFound: Neither the run that asks nor a run above it is exposed.
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
    """Raise Stale if a question that is no longer open has another answer than this one.

    The answer is not known if its event is gone, or if the question was about a budget
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
