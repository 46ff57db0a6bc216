"""A person's approvals of an agent's tool calls, in a workflow."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from perdure.flows.commands.approval import ApprovalRefused, Approved, read_answer
from perdure.flows.commands.approval import digest_of as call_digest
from perdure.flows.core.errors import InvalidInput, PerdureError
from perdure.flows.core.json_values import storable
from perdure.flows.core.summaries import safe_text
from perdure.flows.workflows.arguments import digest_of
from perdure.flows.workflows.steps import AsyncSteps


def arguments(given: Any) -> dict[str, Any]:
    """Return the arguments of a call as JSON, for people.

    A model may have passed them as a text.
    """
    try:
        plain = json.loads(given) if isinstance(given, str) else storable(given, "the arguments")
    except (ValueError, PerdureError):
        return {"arguments": str(given)}
    return plain if isinstance(plain, dict) else {"arguments": plain}


def _question(tool: str, args: Mapping[str, Any], fixed: bool) -> tuple[str, dict[str, Any]]:
    """Return the question about a tool call, and its data."""
    approval = {
        "command": tool,
        "args": dict(args),
        "digest": call_digest(tool, args),
        "listener": "model",
        **({"fixed": True} if fixed else {}),
    }
    return f"approve the call {tool}?", {"approval": approval}


def was_asked(
    steps: AsyncSteps, tool: str, args: Mapping[str, Any], *, fixed: bool = False
) -> bool:
    """Return whether a person was already asked about this call, which the agent makes next.

    Then the answer decides, whatever the agent's rule says now. See ``decision`` for the arguments.
    """
    asked = steps.context.asked
    if isinstance(asked, Mapping) and steps.is_answered_ahead("approve"):
        approval = asked.get("approval")
        if isinstance(approval, Mapping) and approval.get("digest") == call_digest(tool, args):
            return True
    return steps.is_ahead("ask", "approve", digest_of([*_question(tool, args, fixed)]))


def was_called(steps: AsyncSteps, name: str, args: Mapping[str, Any]) -> bool:
    """Return whether the journal has this call, and the agent has not made it again yet.

    No person was asked about such a call. ``name`` is the name of its step.
    """
    return steps.is_ahead("step", name, digest_of(args))


async def decision(
    steps: AsyncSteps, tool: str, args: Mapping[str, Any], *, fixed: bool = False, fault: str = ""
) -> Approved | ApprovalRefused:
    """Ask a person about a tool call. Repeat the question until the answer is valid.

    Args:
        tool: the name of the tool.
        args: the model's arguments.
        fixed: whether the arguments cannot be changed.
        fault: what was wrong with an earlier answer. Empty if there was none.
    """
    while True:
        why = f" (the last answer was not valid: {safe_text(fault, 500)})" if fault else ""
        question, data = _question(tool, args, fixed)
        answer = await steps.ask(f"{question}{why}", data, name="approve")
        try:
            decided = read_answer(answer)
        except InvalidInput as error:
            fault = str(error)
            continue
        if not (fixed and isinstance(decided, Approved) and decided.args is not None):
            return decided
        fault = "the arguments of this call cannot be changed: approve or refuse it"
