"""Runs in the JSON forms of OpenAI's API: as responses, and as chat completions."""

from __future__ import annotations

import json
from typing import Any

from perdure.worker.domain.interrupt import PendingInterrupt
from perdure.worker.domain.run import Run, RunStatus
from perdure.worker.web.exposed_flows import answer_text
from perdure.worker.web.openai_api.requests import call_id
from perdure.worker.web.question_facts import question_facts

#: Status of a response by the run's status. Interrupted and unfinished runs have another status.
STATUSES = {
    RunStatus.QUEUED: "queued",
    RunStatus.RUNNING: "in_progress",
    RunStatus.INTERRUPTED: "in_progress",
    RunStatus.STOPPED: "cancelled",
    RunStatus.ERRORED: "failed",
    RunStatus.COMPLETED: "completed",
}
#: Why a response is incomplete: the run waits for a person. OpenAI has no such reason.
INPUT_REQUIRED = "input_required"


def response_document(run: Run, waiting: PendingInterrupt | None) -> dict[str, Any]:
    """Return a run as a response of OpenAI's API.

    The output of the response is the run's answer, or the open question. A run with an open
    question is an incomplete response.

    Args:
        waiting: Open question of the run or of a run below it. None: no question is open.
    """
    status = STATUSES[run.status]
    incomplete = error = None
    if waiting is not None:
        status, incomplete = "incomplete", {"reason": INPUT_REQUIRED}
    elif run.status is RunStatus.COMPLETED and not run.finished:
        status, incomplete = "incomplete", {"reason": "max_output_tokens"}
    elif run.status is RunStatus.ERRORED:
        error = {"code": "server_error", "message": run.error or "the run failed"}
    return {
        "id": run.id,
        "object": "response",
        "created_at": run.created_at.timestamp(),
        "status": status,
        "background": True,
        "error": error,
        "incomplete_details": incomplete,
        "instructions": None,
        "max_output_tokens": None,
        "metadata": dict(run.labels),
        "model": run.flow,
        "output": output_items(run, waiting),
        "parallel_tool_calls": False,
        "previous_response_id": None,
        "reasoning": None,
        "store": True,
        "temperature": None,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
        "truncation": "disabled",
        "usage": response_usage(run),
        "user": None,
    }


def output_items(run: Run, waiting: PendingInterrupt | None) -> list[dict[str, Any]]:
    """Return the output of a response.

    The output is the run's answer as a message, or the open question (``waiting``) as a function
    call. Without an answer or question, the list is empty.
    """
    if run.status is RunStatus.COMPLETED:
        return [message_item(f"msg_{run.id}", answer_text(run), "completed")]
    return [call] if (call := question_call(run, waiting)) is not None else []


def message_item(item_id: str, text: str, status: str) -> dict[str, Any]:
    """Return an assistant's message as an item of the output."""
    return {
        "id": item_id,
        "type": "message",
        "role": "assistant",
        "status": status,
        "content": [text_part(text)],
    }


def text_part(text: str) -> dict[str, Any]:
    """Return a text as a part of a message."""
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def question_call(run: Run, waiting: PendingInterrupt | None) -> dict[str, Any] | None:
    """Return the open question of a run as a function call.

    The function's name is the kind of the question. The client sends the person's answer as the
    call's output.

    Returns:
        None if no question is open (``waiting`` is None).
    """
    if waiting is None:
        return None
    call = call_id(waiting.run_id, waiting.id)
    return {
        "id": f"fc_{call}",
        "type": "function_call",
        "call_id": call,
        "name": waiting.kind,
        "arguments": json.dumps(question_facts(run.id, waiting), ensure_ascii=False),
        "status": "completed",
    }


def chat_document(run: Run, waiting: PendingInterrupt | None) -> dict[str, Any]:
    """Return a run as a chat completion.

    The run has completed, or has an open question (``waiting``). The message has the run's answer
    as its content, or the question as a tool call.
    """
    message: dict[str, Any] = {"role": "assistant", "content": None, "refusal": None}
    if run.status is RunStatus.COMPLETED:
        message["content"] = answer_text(run)
    elif (call := tool_call(run, waiting)) is not None:
        message["tool_calls"] = [call]
    choice = {
        "index": 0,
        "message": message,
        "finish_reason": finish_reason(run, waiting),
        "logprobs": None,
    }
    return {
        "id": run.id,
        "object": "chat.completion",
        "created": int(run.created_at.timestamp()),
        "model": run.flow,
        "choices": [choice],
        "usage": chat_usage(run),
    }


def finish_reason(run: Run, waiting: PendingInterrupt | None) -> str:
    """Return the ``finish_reason`` of a chat completion.

    It is ``tool_calls`` for an open question, ``stop`` for a finished run, and ``length`` for a run
    that used up its cycles.
    """
    if waiting is not None:
        return "tool_calls"
    return "stop" if run.finished else "length"


def tool_call(run: Run, waiting: PendingInterrupt | None) -> dict[str, Any] | None:
    """Return the open question of a run as a tool call of a chat. None if no question is open."""
    call = question_call(run, waiting)
    return call and {
        "id": call["call_id"],
        "type": "function",
        "function": {"name": call["name"], "arguments": call["arguments"]},
    }


def _tokens(run: Run) -> tuple[int, int, int] | None:
    """Return the input, output and total tokens of a run.

    The runs below it count too.

    Returns:
        None if these runs have used no tokens.
    """
    spent, below = (run.details.get(name) or {} for name in ("spent", "spent_below"))
    read, wrote, total = (
        int(spent.get(name, 0) + below.get(name, 0))
        for name in ("input_tokens", "output_tokens", "tokens")
    )
    return (read, wrote, max(total, read + wrote)) if read or wrote or total else None


def response_usage(run: Run) -> dict[str, Any] | None:
    """Return the field ``usage`` of a response.

    It counts the tokens of the run and of the runs below it.

    Returns:
        None if these runs have used no tokens.
    """
    tokens = _tokens(run)
    return tokens and {
        "input_tokens": tokens[0],
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": tokens[1],
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": tokens[2],
    }


def chat_usage(run: Run) -> dict[str, Any] | None:
    """Return the field ``usage`` of a chat completion.

    It counts the tokens of the run and of the runs below it.

    Returns:
        None if these runs have used no tokens.
    """
    tokens = _tokens(run)
    return tokens and {
        "prompt_tokens": tokens[0],
        "completion_tokens": tokens[1],
        "total_tokens": tokens[2],
    }
