"""Approvals of an agent's tool calls by a person, in a workflow."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from perdure.flows.commands.approval import ApprovalRefused, Approved, digest_of, read_answer
from perdure.flows.errors import InvalidInput, PerdureError
from perdure.flows.json_values import storable
from perdure.flows.summaries import safe_text
from perdure.flows.workflows.steps import AsyncSteps


def arguments(given: Any) -> dict[str, Any]:
    """Return the arguments of a call as JSON, for people. A model may have given them as a text."""
    try:
        plain = json.loads(given) if isinstance(given, str) else storable(given, "the arguments")
    except (ValueError, PerdureError):
        return {"arguments": str(given)}
    return plain if isinstance(plain, dict) else {"arguments": plain}


async def decision(
    steps: AsyncSteps, tool: str, args: Mapping[str, Any], *, fixed: bool = False, fault: str = ""
) -> Approved | ApprovalRefused:
    """Ask a person about a call of a tool, as about a command, until the answer is one.

    Args:
        tool: the name of the tool.
        args: the arguments that the model has given.
        fixed: whether the arguments cannot be changed.
        fault: what was wrong with an answer that was given before.
    """
    approval = {
        "command": tool,
        "args": dict(args),
        "digest": digest_of(tool, args),
        "listener": "model",
        **({"fixed": True} if fixed else {}),
    }
    while True:
        why = f" (the last answer was not valid: {safe_text(fault, 500)})" if fault else ""
        answer = await steps.ask(
            f"approve the call {tool}?{why}", {"approval": approval}, name="approve"
        )
        try:
            decided = read_answer(answer)
        except InvalidInput as error:
            fault = str(error)
            continue
        if not (fixed and isinstance(decided, Approved) and decided.args is not None):
            return decided
        fault = "the arguments of this call cannot be changed: approve or refuse it"
