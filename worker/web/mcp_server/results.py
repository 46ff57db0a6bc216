"""Results of MCP tool calls.

A result shows a run as text for a model, and as JSON for a program.
"""

from __future__ import annotations

import json
from typing import Any

from mcp_types import CallToolResult, TextContent

from perdure.flows.core.errors import PerdureError
from perdure.worker.domain.interrupt import PendingInterrupt
from perdure.worker.domain.run import Run, RunStatus
from perdure.worker.presentation.questions import question_lines
from perdure.worker.web.auth import Caller
from perdure.worker.web.exposed_flows import answer_text
from perdure.worker.web.problems import shown_text
from perdure.worker.web.question_facts import expected, question_facts


def run_result(run: Run, waiting: PendingInterrupt | None, note: str = "") -> CallToolResult:
    """Return the result of a tool call that shows the state of a run.

    The result is marked as an error if the run errored, was stopped, or used up its cycles.

    Args:
        waiting: Open question of the run or of a run below it. None: no question is open.
        note: A sentence before the text. If it is not empty, the result is marked as an error too.
            The structured content has the note too, because some clients show a model only that.
    """
    facts = run_facts(run, waiting)
    if note:
        facts["note"] = note
    text = f"{note}\n\n{_text(run, waiting)}" if note else _text(run, waiting)
    failed = run.status in (RunStatus.ERRORED, RunStatus.STOPPED) or (
        run.status is RunStatus.COMPLETED and not run.finished
    )
    return CallToolResult(
        content=[TextContent(type="text", text=text)],
        structured_content=facts,
        is_error=bool(note) or failed,
    )


def run_facts(run: Run, waiting: PendingInterrupt | None) -> dict[str, Any]:
    """Return a run's state as JSON for MCP clients.

    The field ``answer`` always has the flow's answer type, because clients validate it against the
    tool's output schema. The answer of a run that used up its cycles may have another type, so its
    field is ``unfinished_answer``.
    """
    facts: dict[str, Any] = {"run": run.id, "flow": run.flow, "status": run.status.value}
    if run.status is RunStatus.COMPLETED:
        facts |= {"finished": run.finished, "output": run.output}
        if run.answer is not None:
            facts["answer" if run.finished else "unfinished_answer"] = run.answer
    if run.status is RunStatus.ERRORED:
        facts["error"] = run.error or "the run failed"
    if run.status is RunStatus.STOPPED and (reason := run.details.get("stop_reason")):
        facts["stop_reason"] = reason
    if waiting is not None:
        facts["question"] = question_facts(run.id, waiting)
    return facts


def _text(run: Run, waiting: PendingInterrupt | None) -> str:
    if waiting is not None:
        below = waiting.run_id != run.id
        who = f"waits for run {waiting.run_id} ({waiting.flow}), which" if below else ""
        asked = "\n".join(question_lines(waiting))
        return (
            f"Run {run.id} {f'{who} ' if who else ''}waits for a person. {asked}\n"
            f"Ask the person. Then call answer with run {waiting.run_id!r}, question "
            f"{waiting.id!r}, and as the answer {expected(waiting)}."
        )
    match run.status:
        case RunStatus.COMPLETED if run.finished:
            return answer_text(run)
        case RunStatus.COMPLETED:
            return f"Run {run.id} is {run.status_text}. It has: {answer_text(run)}"
        case RunStatus.ERRORED:
            return f"Run {run.id} failed: {run.error}"
        case RunStatus.STOPPED:
            reason = run.details.get("stop_reason")
            return f"Run {run.id} was stopped{f': {reason}' if reason else ''}."
        case RunStatus.INTERRUPTED:
            return f"Run {run.id} was answered and goes on."
    if run.phase == "parked":
        return (
            f"Run {run.id} waits for a time, a signal, or runs that it has started. Call status "
            f"with run {run.id!r} to wait for its answer."
        )
    return (
        f"Run {run.id} is {run.status.value}, at step {run.state.step}. It goes on by itself. Call "
        f"status with run {run.id!r} to wait for its answer."
    )


def refusal(error: PerdureError, caller: Caller) -> CallToolResult:
    """Return the result of a tool call that failed with ``error``.

    ``caller`` decides how much of the error's text the result has (``shown_text``).
    """
    text = shown_text(error, caller)
    return CallToolResult(
        content=[TextContent(type="text", text=text)],
        structured_content={"code": error.code, "error": text},
        is_error=True,
    )


def as_json(result: CallToolResult) -> dict[str, Any]:
    """Return the result of a tool call as JSON data.

    The data becomes the field ``result`` of a task.
    """
    data: dict[str, Any] = json.loads(result.model_dump_json(by_alias=True, exclude_none=True))
    return data
