"""Calls of the MCP server's tools.

A call starts a run and waits for it, returns a run's status, answers a question, or cancels a run.
If a call that waits is interrupted, the run goes on. The tool ``status`` finds the run again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from mcp.server.context import ServerRequestContext
from mcp_types import CallToolRequestParams, CallToolResult, ElicitResult, InputRequiredResult
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, ValidationError
from starlette.concurrency import run_in_threadpool

from perdure.flows.core.errors import InvalidInput
from perdure.worker.domain.run import Run
from perdure.worker.domain.token import Scope
from perdure.worker.errors import Forbidden, RunNotFound, Stale
from perdure.worker.web.auth import AuthorizedClient
from perdure.worker.web.event_hub import EventHub
from perdure.worker.web.exposed_flows import (
    answerable_run,
    exposed_flow,
    exposed_flows,
    exposed_run,
    settled,
)
from perdure.worker.web.mcp_server import tasks
from perdure.worker.web.mcp_server.question_forms import answer_of, form_of, may_be_answer
from perdure.worker.web.mcp_server.results import refusal, run_result
from perdure.worker.web.mcp_server.tools import (
    AnswerArguments,
    CancelArguments,
    StartArguments,
    StatusArguments,
    tool_names,
)
from perdure.worker.web.question_facts import (
    answer_event,
    how_answered,
    is_answer_known,
    open_question,
    pending,
    question_key,
)

Context = ServerRequestContext[Any, Any]
A = TypeVar("A", bound=BaseModel)


class ToolCalls:
    """The executor of MCP tool calls for authenticated callers."""

    def __init__(self, hub: EventHub) -> None:
        self._hub = hub

    async def call(
        self, context: Context, runs: AuthorizedClient, params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult | dict[str, Any]:
        """Execute the call of a tool, and return its result.

        Args:
            context: The MCP request.
            runs: The client with the rights of the request's caller.
            params: The name and the arguments of the tool.

        Returns:
            A CallToolResult with the state of the run. For a client that follows tasks, a call that
            starts a run returns the task as a dict. An InputRequiredResult asks the client to show
            an open question to its user, and to repeat the call with the answer.

        Raises:
            Forbidden: The caller lacks a scope.
            UnknownFlow: No tool has this name.
            PerdureError: The call failed for another reason.
        """
        match params.name:
            case "status":
                return await self._status(runs, _read(StatusArguments, params))
            case "answer":
                return await self._answer(runs, _read(AnswerArguments, params))
            case "cancel":
                return await _cancel(runs, _read(CancelArguments, params))
        arguments = _read(StartArguments, params)
        if params.request_state is not None:
            run = await self._go_on(runs, params)
        else:
            run = await run_in_threadpool(_submit, runs, params.name, arguments)
            if tasks.is_offered(context):
                return tasks.created(run)
        if isinstance(run, CallToolResult):
            return run
        run = await settled(runs, self._hub, run.id, arguments.wait)
        waiting = await run_in_threadpool(open_question, runs, run)
        if waiting is None or not _can_ask(context, runs):
            return run_result(run, waiting)
        return InputRequiredResult(
            input_requests={question_key(run.id, waiting): form_of(waiting)}, request_state=run.id
        )

    async def _go_on(
        self, runs: AuthorizedClient, params: CallToolRequestParams
    ) -> Run | CallToolResult:
        """Answer a run's question from a repeated call.

        The MCP client repeats its call with the answer and the request state. The request state is
        the run's id. It needs no signature, because it gives the caller no further rights.

        Returns:
            The run, for which the call then waits. The result of the call if the person has not
            decided, or if the answer is not valid, not permitted or too late.

        Raises:
            InvalidInput: The run is not of the tool's flow.
            RunNotFound: No exposed run has the id in the request state.
        """
        run = await run_in_threadpool(exposed_run, runs, "mcp", str(params.request_state))
        if run.flow != await run_in_threadpool(_flow_of, runs, params.name):
            raise InvalidInput(f"run {run.id} is of flow {run.flow}; {params.name} cannot go on")
        waiting = await run_in_threadpool(open_question, runs, run)
        key = question_key(run.id, waiting) if waiting else ""
        results = {
            name: each
            for name, each in (params.input_responses or {}).items()
            if isinstance(each, ElicitResult)
        }
        result = results.get(key)
        if waiting is None or result is None:
            note = await run_in_threadpool(_other_answer, runs, run.id, results)
            return run_result(run, waiting, note) if note else run
        try:
            answer = answer_of(waiting, result)
            if answer is None:
                return run_result(run, waiting, "The person has not decided.")
            await run_in_threadpool(
                runs.resume, waiting.run_id, answer.answer, answer.add, waiting.id
            )
        except (Forbidden, InvalidInput) as error:
            return run_result(run, waiting, str(error))
        except Stale:
            run = await run_in_threadpool(runs.get, run.id)
            note = await run_in_threadpool(_other_answer, runs, run.id, {key: result})
            if note:
                return run_result(run, await run_in_threadpool(open_question, runs, run), note)
        return await run_in_threadpool(runs.get, run.id)

    async def _status(self, runs: AuthorizedClient, arguments: StatusArguments) -> CallToolResult:
        await run_in_threadpool(exposed_run, runs, "mcp", arguments.run)
        return await self._told(runs, arguments.run, arguments.wait)

    async def _told(self, runs: AuthorizedClient, run_id: str, seconds: float) -> CallToolResult:
        run = await settled(runs, self._hub, run_id, seconds)
        return run_result(run, await run_in_threadpool(open_question, runs, run))

    async def _answer(self, runs: AuthorizedClient, arguments: AnswerArguments) -> CallToolResult:
        runs.caller.require(Scope.ANSWER)
        run = await run_in_threadpool(answerable_run, runs, "mcp", arguments.run)
        if "answer" not in arguments.model_fields_set:
            waiting = pending(await run_in_threadpool(runs.get, arguments.run))
            if waiting is not None and waiting.kind == "question":
                raise InvalidInput(
                    f"run {arguments.run} asks: {waiting.question} Expected the person's answer "
                    "in 'answer'"
                )
        try:
            await run_in_threadpool(
                runs.resume, arguments.run, arguments.answer, arguments.add, arguments.question
            )
        except Forbidden as error:  # The flow wants another person's approval.
            return refusal(error, runs.caller)
        return await self._told(runs, run.id, arguments.wait)


async def _cancel(runs: AuthorizedClient, arguments: CancelArguments) -> CallToolResult:
    runs.caller.require(Scope.STOP)
    await run_in_threadpool(exposed_run, runs, "mcp", arguments.run)
    receipt = await run_in_threadpool(
        runs.request_stop, arguments.run, "graceful", arguments.reason
    )
    run = await run_in_threadpool(runs.get, arguments.run)
    result = run_result(run, pending(run))
    if not receipt.running:
        return result
    if not receipt.stopped:
        note = f"Run {receipt.run_id} stops as soon as its round is over."
        result.content[0].text = note  # type: ignore[union-attr]
        result.structured_content["note"] = note
    return result.model_copy(update={"is_error": False})


def _other_answer(runs: AuthorizedClient, run_id: str, results: Mapping[str, ElicitResult]) -> str:
    """Return a sentence about an answer that came too late.

    The sentence is about the first answer in ``results`` that differs from the stored answer.

    Args:
        results: Filled forms by the keys of their questions (``question_key``). None of these
            questions is open any more.

    Returns:
        '' if no form has such an answer, or if the stored answers are not known.
    """
    for key, result in results.items():
        child, _, question = key.rpartition("/")
        if result.action == "cancel":
            continue
        try:
            resumed = answer_event(runs, child or run_id, question)
        except RunNotFound:
            continue
        if resumed is None or not is_answer_known(resumed):
            continue
        if not may_be_answer(resumed.data.get("answer"), result):
            return (
                f"Question {question} of run {child or run_id} is no longer open: "
                f"{how_answered(resumed)}. This answer does not count."
            )
    return ""


def _submit(runs: AuthorizedClient, tool: str, arguments: StartArguments) -> Run:
    # It needs the scope to read, so a caller who cannot read the result stores nothing.
    flow = _flow_of(runs, tool)
    return runs.submit(flow, arguments.goal, arguments.inputs, idempotency_key=arguments.key)


def _flow_of(runs: AuthorizedClient, tool: str) -> str:
    """Return the flow whose runs a tool starts.

    The flow must be exposed to MCP clients.

    Raises:
        UnknownFlow: No tool that starts runs has this name.
    """
    flow = tool_names(exposed_flows(runs, "mcp")).get(tool)
    if flow is None:
        exposed_flow(runs, "mcp", tool)
    return flow or tool


def _can_ask(context: Context, runs: AuthorizedClient) -> bool:
    """Return whether the MCP client can show a form.

    The client must support forms and a modern protocol version, and the caller must have the scope
    ``answer``.
    """
    capabilities = context.session.client_capabilities
    forms = capabilities.elicitation if capabilities is not None else None
    return (
        context.protocol_version in MODERN_PROTOCOL_VERSIONS
        and forms is not None
        and (forms.form is not None or forms.url is None)
        and runs.caller.may(Scope.ANSWER)
    )


def _read(kind: type[A], params: CallToolRequestParams) -> A:
    """Return the arguments of a tool call as an instance of the model ``kind``.

    Raises:
        InvalidInput: The arguments do not fit the model. The error's text names each fault.
    """
    try:
        return kind.model_validate(params.arguments or {})
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors()
        )
        raise InvalidInput(
            f"the tool {params.name!r} does not accept these arguments: {faults}. It takes "
            f"{', '.join(kind.model_fields)}"
        ) from error
