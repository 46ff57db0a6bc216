"""Approvals of an agent's tool calls in Pydantic AI, and arguments that a person has changed.

The library validates arguments when the agent goes on. What it finds wrong with those of a person
is for the person, not for the model.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from typing import TypeVar

from pydantic import ValidationError
from pydantic_ai import ModelRetry, ToolApproved, ToolDenied
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.tools import DeferredToolResults

from perdure.flows.adapters.approvals import decision
from perdure.flows.commands.approval import Approved
from perdure.flows.validation import faults_text
from perdure.flows.workflows.steps import AsyncSteps

T = TypeVar("T")

#: The ids of calls whose arguments a person has changed.
_edited: ContextVar[frozenset[str]] = ContextVar("perdure_edited", default=frozenset())


class UnfitEdit(Exception):
    """A person has changed the arguments of a call, and its tool does not accept them.

    Attributes:
        call_id: the id of the call.
    """

    def __init__(self, call_id: str, fault: str) -> None:
        super().__init__(fault)
        self.call_id = call_id


def check_edit(call: ToolCallPart, error: ValidationError | ModelRetry) -> None:
    """Raise UnfitEdit if a person has given the arguments with which a call failed."""
    if call.tool_call_id in _edited.get():
        fault = faults_text(error) if isinstance(error, ValidationError) else error.message
        raise UnfitEdit(call.tool_call_id, f"{call.tool_name} does not accept it: {fault}")


async def decide_and_go_on(
    steps: AsyncSteps,
    calls: Sequence[ToolCallPart],
    go_on: Callable[..., Awaitable[T]],
) -> T:
    """Ask a person about calls that need approval, and let the agent go on with the decisions.

    A person whose arguments do not fit their tool is asked again. No call is carried out before all
    arguments fit.

    Args:
        go_on: runs the agent with ``deferred_tool_results``, the decisions.
    """
    decisions = {call.tool_call_id: await _decision(steps, call) for call in calls}
    while True:
        results = DeferredToolResults(approvals=dict(decisions))
        edited = (
            call_id
            for call_id, decided in decisions.items()
            if isinstance(decided, ToolApproved) and decided.override_args is not None
        )
        before = _edited.set(frozenset(edited))
        try:
            return await go_on(deferred_tool_results=results)
        except UnfitEdit as error:
            [call] = [call for call in calls if call.tool_call_id == error.call_id]
            decisions[error.call_id] = await _decision(steps, call, str(error))
        finally:
            _edited.reset(before)


async def _decision(
    steps: AsyncSteps, call: ToolCallPart, fault: str = ""
) -> ToolApproved | ToolDenied:
    """Ask a person about a call.

    Args:
        fault: what was wrong with the person's last answer.
    """
    decided = await decision(steps, call.tool_name, call.args_as_dict(), fault=fault)
    if isinstance(decided, Approved):
        args = decided.args
        return ToolApproved() if args is None else ToolApproved(override_args=dict(args))
    return ToolDenied(decided.words or "A person refused this call.")
