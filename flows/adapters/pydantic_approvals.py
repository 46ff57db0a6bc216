"""Approvals of an agent's tool calls in Pydantic AI. A person may change the arguments."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import ValidationError
from pydantic_ai import ModelRetry, RunContext, ToolApproved, ToolDenied
from pydantic_ai.messages import ModelResponse, ToolCallPart
from pydantic_ai.tools import DeferredToolRequests, DeferredToolResults

from perdure.flows.adapters.approvals import (
    AgentCall,
    agent_call_id,
    decision,
)
from perdure.flows.commands.approval import Approved
from perdure.flows.core.errors import FatalError
from perdure.flows.core.json_values import canonical
from perdure.flows.core.validation import faults_text
from perdure.flows.workflows.steps import AsyncSteps

#: Decides about the calls that an agent leaves to others.
Decide = Callable[[RunContext[Any], DeferredToolRequests], Awaitable[DeferredToolResults]]


def deciding(steps: AsyncSteps) -> Decide:
    """Return the handler for tool calls that need approval.

    The handler asks a person about each call. If the tool does not accept the arguments that the
    person has edited, the person is asked again. The model gets no message about this. No call is
    carried out before all arguments are accepted. The handler raises FatalError if the agent calls
    a tool that is carried out elsewhere.
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
        calls = {each.tool_call_id: _agent_call(context, each) for each in requests.approvals}
        decisions = {id_: await _decision(steps, call) for id_, call in calls.items()}
        for part in requests.approvals:
            id_ = part.tool_call_id
            while fault := await _fault(context, part, decisions[id_]):
                decisions[id_] = await _decision(steps, calls[id_], fault)
        _tell_edits(context, requests.approvals, decisions)
        return DeferredToolResults(approvals=dict(decisions))

    return decide


async def _fault(
    context: RunContext[Any], call: ToolCallPart, decided: ToolApproved | ToolDenied
) -> str:
    """Return why a tool does not accept edited arguments.

    Returns:
        An empty text if the tool accepts them, or if the person edited nothing.
    """
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
    steps: AsyncSteps, call: AgentCall, fault: str = ""
) -> ToolApproved | ToolDenied:
    """Return a person's decision about a call, in the library's form.

    Args:
        fault: what was wrong with the person's last answer. Empty if there was none.
    """
    decided = await decision(steps, call, fault=fault)
    if isinstance(decided, Approved):
        args = decided.args
        return ToolApproved() if args is None else ToolApproved(override_args=dict(args))
    return ToolDenied(decided.words or "A person refused this call.")


def _tell_edits(
    context: RunContext[Any],
    parts: Sequence[ToolCallPart],
    decisions: Mapping[str, ToolApproved | ToolDenied],
) -> None:
    """Tell the model about edited calls, in its next request."""
    for part in parts:
        decided = decisions[part.tool_call_id]
        if isinstance(decided, ToolApproved) and decided.override_args is not None:
            context.enqueue(
                f"A person has changed the arguments of your call of {part.tool_name}. It was "
                f"carried out with {canonical(decided.override_args)}"
            )


def call_of(context: RunContext[Any], tool: str, args: Mapping[str, Any]) -> AgentCall:
    """Return a tool call with the model's own arguments.

    These are the arguments before their validation.

    Args:
        context: the library's context of the call.
        tool: the name of the tool.
        args: the validated arguments. They are used only if the agent's messages lack the call.
    """
    for message in reversed(context.messages):
        for part in message.parts if isinstance(message, ModelResponse) else ():
            if isinstance(part, ToolCallPart) and part.tool_call_id == context.tool_call_id:
                return _agent_call(context, part)
    part = ToolCallPart(tool, dict(args), tool_call_id=context.tool_call_id or "")
    return _agent_call(context, part)


def _agent_call(context: RunContext[Any], part: ToolCallPart) -> AgentCall:
    made_by = agent_call_id(context.agent, part.tool_call_id)
    return AgentCall(part.tool_name, part.args_as_dict(), made_by)
