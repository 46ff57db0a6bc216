"""MCP's extension for tasks (SEP-2663), with runs as tasks.

The id of a run is the id of its task. A client that declares the extension gets a task for each
call that starts a run. The client polls ``tasks/get``, answers the task's questions with
``tasks/update``, and stops the task with ``tasks/cancel``. The ``mcp`` package has no classes for
the extension's messages, so this module defines them.
"""

from __future__ import annotations

from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    ElicitResult,
    RequestParams,
)
from mcp_types.jsonrpc import HEADER_MISMATCH, MISSING_REQUIRED_CLIENT_CAPABILITY
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import Field, ValidationError
from starlette.concurrency import run_in_threadpool

from perdure.flows.core.errors import InvalidInput
from perdure.worker.domain.interrupt import PendingInterrupt
from perdure.worker.domain.run import Run, RunStatus
from perdure.worker.domain.token import Scope
from perdure.worker.errors import InvalidTransition, RunNotFound, Stale
from perdure.worker.web.auth import AuthorizedClient
from perdure.worker.web.exposed_flows import exposed_run
from perdure.worker.web.mcp_server.question_forms import answer_of, form_of
from perdure.worker.web.mcp_server.results import as_json, run_result
from perdure.worker.web.question_facts import open_question, pending, question_key

#: Name of the extension.
EXTENSION = "io.modelcontextprotocol/tasks"
#: Milliseconds between two polls that a client is asked to keep.
POLL_MS = 1000

Context = ServerRequestContext[Any, Any]


class TaskParams(RequestParams):
    """Parameters of a task method: the task's id."""

    task_id: str = Field(alias="taskId")


class TaskUpdateParams(TaskParams):
    """Parameters of ``tasks/update``: a person's answers, by the key of the question.

    The keys are those of ``question_key``.
    """

    input_responses: dict[str, Any] = Field(alias="inputResponses")


def is_offered(context: Context) -> bool:
    """Return whether an MCP client can follow a task.

    The request must use a modern protocol version and declare the tasks extension.
    """
    capabilities = context.session.client_capabilities
    return (
        context.protocol_version in MODERN_PROTOCOL_VERSIONS
        and capabilities is not None
        and EXTENSION in (capabilities.extensions or {})
    )


def created(run: Run) -> dict[str, Any]:
    """Return the result of a tool call that has started ``run``: the new task."""
    return {"resultType": "task", **_frame(run, pending(run))}


async def get_task(context: Context, runs: AuthorizedClient, params: TaskParams) -> dict[str, Any]:
    """Return the state of a task (``tasks/get``).

    A completed task has its result, and a failed task its error. A task that waits for a person has
    the form of the open question.
    """
    run = await _task_run(context, runs, params)
    waiting = await run_in_threadpool(open_question, runs, run)
    task: dict[str, Any] = {"resultType": "complete", **_frame(run, waiting)}
    match task["status"]:
        case "completed":
            task["result"] = as_json(run_result(run, None))
        case "failed":
            task["error"] = {"code": INTERNAL_ERROR, "message": run.error or "the run failed"}
        case "input_required":
            assert waiting is not None
            form = form_of(waiting).model_dump(by_alias=True, mode="json", exclude_none=True)
            task["inputRequests"] = {question_key(run.id, waiting): form}
    return task


async def update_task(
    context: Context, runs: AuthorizedClient, params: TaskUpdateParams
) -> dict[str, Any]:
    """Answer the open question of a task (``tasks/update``).

    Nothing changes if the request has no answer to the open question, if the person has not
    decided, or if the question was answered in the meantime.

    Returns:
        Always an empty result.

    Raises:
        Forbidden: The caller lacks the scope ``answer``.
        InvalidInput: The answer is no valid form, or does not fit the question.
    """
    runs.caller.require(Scope.ANSWER)
    run = await _task_run(context, runs, params)
    waiting = await run_in_threadpool(open_question, runs, run)
    key = question_key(run.id, waiting) if waiting is not None else ""
    if waiting is None or key not in params.input_responses:
        return {}
    try:
        result = ElicitResult.model_validate(params.input_responses[key], by_name=False)
    except ValidationError as error:
        raise InvalidInput(
            f"run {run.id}: the answer to question {key} is no result of an elicitation"
        ) from error
    answer = answer_of(waiting, result)
    if answer is not None:
        try:
            await run_in_threadpool(
                runs.resume, waiting.run_id, answer.answer, answer.add, waiting.id
            )
        except (Stale, InvalidTransition):
            return {}
    return {}


async def cancel_task(
    context: Context, runs: AuthorizedClient, params: TaskParams
) -> dict[str, Any]:
    """Stop the run of a task (``tasks/cancel``). The run's round in flight may finish.

    Raises:
        Forbidden: The caller lacks the scope ``stop``.
    """
    runs.caller.require(Scope.STOP)
    await _task_run(context, runs, params)
    await run_in_threadpool(runs.request_stop, params.task_id, "graceful")
    return {}


METHODS = (
    ("tasks/get", TaskParams, get_task),
    ("tasks/update", TaskUpdateParams, update_task),
    ("tasks/cancel", TaskParams, cancel_task),
)


async def _task_run(context: Context, runs: AuthorizedClient, params: TaskParams) -> Run:
    """Return the run of a task.

    Raises:
        MCPError: The protocol version has no tasks, the client does not declare the extension, the
            header names another task, or no exposed run has this id.
    """
    if context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        raise MCPError(METHOD_NOT_FOUND, f"no {context.method} in {context.protocol_version}")
    if not is_offered(context):
        raise MCPError(
            MISSING_REQUIRED_CLIENT_CAPABILITY,
            f"{context.method} needs the extension {EXTENSION}, which the client does not declare",
            {"requiredCapabilities": {"extensions": {EXTENSION: {}}}},
        )
    header = context.request.headers.get(MCP_NAME_HEADER) if context.request else None
    if header is not None and decode_header_value(header) != params.task_id:
        raise MCPError(HEADER_MISMATCH, f"{MCP_NAME_HEADER} does not name the task of the body")
    try:
        return await run_in_threadpool(exposed_run, runs, "mcp", params.task_id)
    except RunNotFound as error:
        raise MCPError(INVALID_PARAMS, str(error), {"code": error.code}) from error


def _frame(run: Run, waiting: PendingInterrupt | None) -> dict[str, Any]:
    """Return the fields that every message about a task has.

    ``waiting`` is the open question of the run or of a run below it, or None.
    """
    return {
        "taskId": run.id,
        "status": _status(run, waiting),
        "statusMessage": _status_text(run, waiting),
        "createdAt": run.created_at.isoformat(),
        "lastUpdatedAt": run.updated_at.isoformat(),
        "ttlMs": None,  # The server keeps a run for its retention time.
        "pollIntervalMs": POLL_MS,
    }


def _status_text(run: Run, waiting: PendingInterrupt | None) -> str:
    if waiting is None or waiting.run_id == run.id:
        return run.status_text
    return f"{run.status_text}; run {waiting.run_id} ({waiting.flow}) waits for a person"


def _status(run: Run, waiting: PendingInterrupt | None) -> str:
    if waiting is not None:
        return "input_required"
    match run.status:
        case RunStatus.COMPLETED:
            return "completed"
        case RunStatus.ERRORED:
            return "failed"
        case RunStatus.STOPPED:
            return "cancelled"
    return "working"
