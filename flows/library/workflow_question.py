"""The flow ``workflow-question``: a question that a workflow asks at the same time as others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from perdure.flows.core.names import Role
from perdure.flows.core.outcomes import End, Interrupt, Outcome
from perdure.flows.rounds.context import RoundContext
from perdure.flows.rounds.flow import Flow
from perdure.flows.rounds.registry import register


class WorkflowQuestionInputs(BaseModel):
    """The inputs of a question. The text of the question is the goal of the run.

    Attributes:
        data: JSON shown with the question.
        deadline: seconds until ``default`` becomes the answer. None waits for ever.
        default: the answer at the deadline.
    """

    data: Any = None
    deadline: float | None = None
    default: Any = None


@register("workflow-question")
class WorkflowQuestion(Flow):
    """Ask a person the goal. A workflow starts this as a child run and waits for the answer."""

    Inputs = WorkflowQuestionInputs

    @property
    def nodes(self) -> Mapping[str, Role]:
        """The node that asks."""
        return {"Ask": "executor"}

    def play(self, node: str, context: RoundContext) -> Outcome:
        """Ask the person. End the run with the answer.

        If the answer has the wrong JSON type, ask again.
        """
        asked = WorkflowQuestionInputs.model_validate(dict(context.inputs))
        question = context.goal
        if context.answered:
            fault = _fault_of(asked.data, context.answer)
            if not fault:
                return End(context.answer)
            question = f"{question} (the last answer does not fit: {fault})"
        return Interrupt(question, asked.data, asked.deadline, asked.default)


#: The Python types of JSON data, by the name of their type in a JSON schema.
_TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
    "null": type(None),
}


def _fault_of(data: Any, answer: Any) -> str:
    """Return an error text for an answer of the wrong type. Empty if the type is right.

    Only ``type`` of the schema is compared, because this flow may run in a worker that does not
    have the Python type. The workflow validates the answer completely.

    Args:
        data: the data of the question. It may have a JSON schema under ``expects``. Without a
            schema with a known type, every answer is right.
    """
    schema = data.get("expects") if isinstance(data, dict) else None
    name = schema.get("type") if isinstance(schema, dict) else None
    if not isinstance(name, str) or name not in _TYPES:
        return ""
    fits = isinstance(answer, _TYPES[name]) and (name == "boolean" or not isinstance(answer, bool))
    return "" if fits else f"expected JSON of the type {name}"
