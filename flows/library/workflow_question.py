"""The flow ``workflow-question``: a question that a workflow asks at the same time as others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from perdure.flows.context import RoundContext
from perdure.flows.flow import Flow, Role
from perdure.flows.outcomes import End, Interrupt, Outcome
from perdure.flows.registry import register


class WorkflowQuestionInputs(BaseModel):
    """What is asked beside the goal.

    Attributes:
        data: JSON shown with the question.
        deadline: seconds until ``default`` is taken. None waits for ever.
        default: the answer at the deadline.
    """

    data: Any = None
    deadline: float | None = None
    default: Any = None


@register("workflow-question")
class WorkflowQuestion(Flow):
    """Ask a person the goal, for a workflow that waits for the answer (a child run of it)."""

    Inputs = WorkflowQuestionInputs

    @property
    def nodes(self) -> Mapping[str, Role]:
        """The node that asks."""
        return {"Ask": "executor"}

    def play(self, node: str, context: RoundContext) -> Outcome:
        """Ask the person, and end with the answer."""
        if context.answered:
            return End(context.answer)
        asked = WorkflowQuestionInputs.model_validate(dict(context.inputs))
        return Interrupt(context.goal, asked.data, asked.deadline, asked.default)
