"""Approvals of an agent's tool calls in Pydantic AI. A person may change the arguments."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

from pydantic import ValidationError
from pydantic_ai import ModelRetry, RunContext, ToolApproved, ToolDenied
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.tools import DeferredToolRequests, DeferredToolResults

from perdure.flows.adapters.approvals import decision
from perdure.flows.commands.approval import Approved
from perdure.flows.core.errors import FatalError
from perdure.flows.core.validation import faults_text
from perdure.flows.workflows.steps import AsyncSteps

#: Decides about the calls that an agent leaves to others.
Decide = Callable[[RunContext[Any], DeferredToolRequests], Awaitable[DeferredToolResults]]


def deciding(steps: AsyncSteps) -> Decide:
    """Return the handler that asks a person about tool calls that need approval.

    If a person's arguments do not fit their tool, the person is asked again, and the model gets no
    message about it. No call is carried out before all arguments fit.
    """

    async def decide(
        context: RunContext[Any], requests: DeferredToolRequests
    ) -> DeferredToolResults:
        if requests.calls:
            names = ", ".join(call.tool_name for call in requests.calls)
            raise FatalError(
                f"run {steps.run_id}: the agent calls tools that are carried out elsewhere "
                f"({names}); a workflow has no place for their results. Give the agent a function"
            )
        decisions = {call.tool_call_id: await _decision(steps, call) for call in requests.approvals}
        for call in requests.approvals:
            while fault := await _fault(context, call, decisions[call.tool_call_id]):
                decisions[call.tool_call_id] = await _decision(steps, call, fault)
        return DeferredToolResults(approvals=dict(decisions))

    return decide


async def _fault(
    context: RunContext[Any], call: ToolCallPart, decided: ToolApproved | ToolDenied
) -> str:
    """Return why a tool does not accept a person's arguments. Empty if it accepts them."""
    if not isinstance(decided, ToolApproved) or decided.override_args is None:
        return ""
    args: Mapping[str, Any] = decided.override_args
    edited = replace(call, args=json.dumps(args))
    assert context.tool_manager is not None, "the agent that asks has its tools"
    try:
        await context.tool_manager.validate_tool_call(
            edited, approved=True, wrap_validation_errors=False
        )
    except (ValidationError, ModelRetry) as error:
        fault = faults_text(error) if isinstance(error, ValidationError) else error.message
        return f"{call.tool_name} does not accept it: {fault}"
    return ""


async def _decision(
    steps: AsyncSteps, call: ToolCallPart, fault: str = ""
) -> ToolApproved | ToolDenied:
    """Ask a person about a call.

    Args:
        fault: what was wrong with the person's last answer. Empty if there was none.
    """
    decided = await decision(steps, call.tool_name, call.args_as_dict(), fault=fault)
    if isinstance(decided, Approved):
        args = decided.args
        return ToolApproved() if args is None else ToolApproved(override_args=dict(args))
    return ToolDenied(decided.words or "A person refused this call.")
