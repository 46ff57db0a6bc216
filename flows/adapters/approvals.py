"""A person's approvals of an agent's tool calls, in a workflow."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from perdure.flows.commands.approval import ApprovalRefused, Approved, read_answer
from perdure.flows.commands.approval import digest_of as call_digest
from perdure.flows.core.errors import InvalidInput, PerdureError
from perdure.flows.core.json_values import storable
from perdure.flows.core.summaries import safe_text
from perdure.flows.workflows.arguments import digest_of
from perdure.flows.workflows.steps import AsyncSteps


def arguments(given: Any) -> dict[str, Any]:
    """Return a tool call's arguments as a JSON object.

    Args:
        given: the arguments as data or as JSON text, as the model gave them. If they are not an
            object or cannot be read, they are returned under the key ``arguments``.
    """
    try:
        plain = json.loads(given) if isinstance(given, str) else storable(given, "the arguments")
    except (ValueError, PerdureError):
        return {"arguments": str(given)}
    return plain if isinstance(plain, dict) else {"arguments": plain}


@dataclass(frozen=True)
class AgentCall:
    """A call of a tool by an agent's model.

    Attributes:
        tool: the name of the tool.
        args: the model's arguments, as JSON.
        made_by: the agent's name, and the model's id of the call. It distinguishes calls with equal
            arguments. Empty in a question that an older release asked.
        fixed: whether a person cannot change the arguments.
    """

    tool: str
    args: Mapping[str, Any]
    made_by: str = ""
    fixed: bool = False

    def question(self, fault: str = "") -> tuple[str, dict[str, Any]]:
        """Return the text of the question about this call, and the question's data.

        Args:
            fault: what was wrong with an earlier answer. Empty if there was none.
        """
        why = f" (the last answer was not valid: {safe_text(fault, 500)})" if fault else ""
        approval = {
            "command": self.tool,
            "args": dict(self.args),
            "digest": call_digest(self.tool, self.args),
            "listener": "model",
            **({"fixed": True} if self.fixed else {}),
            **({"call": self.made_by} if self.made_by else {}),
        }
        return f"approve the call {self.tool}?{why}", {"approval": approval}

    def as_asked(self, steps: AsyncSteps, fault: str = "") -> AgentCall:
        """Return the call as the run asked about it.

        If an older release asked, it is a copy without ``made_by``. Otherwise, it is this call.
        """
        older = replace(self, made_by="")
        if self._place(steps, fault) is not None:
            return self
        is_older = older._place(steps, fault) is not None or older._is_answered(steps)
        return older if is_older else self

    def asked_at(self, steps: AsyncSteps) -> float | None:
        """Return the journal position of the question about this call.

        Returns:
            The position, counted from 0 at the first entry that the function has not received yet.
            ``math.inf`` if a person has just answered the question, so that the journal does not
            have it yet. None if no person was asked.
        """
        call = self.as_asked(steps)
        place = call._place(steps)
        return math.inf if place is None and call._is_answered(steps) else place

    def _place(self, steps: AsyncSteps, fault: str = "") -> int | None:
        return steps.place_ahead("ask", "approve", digest_of([*self.question(fault)]))

    def _is_answered(self, steps: AsyncSteps) -> bool:
        approval = _answered(steps) or {}
        asked = self.question()[1]["approval"]
        return all(approval.get(key) == asked.get(key) for key in ("digest", "call"))

    def compared(self, steps: AsyncSteps, name: str, args: Mapping[str, Any]) -> Any:
        """Return JSON data that identifies the step of this call.

        The data distinguishes the step from other steps of the same name. For a step that an older
        release recorded, the data is the arguments alone.

        Args:
            name: the name of the step.
            args: the arguments of the tool, as the step shows them.
        """
        own = [self.made_by, dict(args)]
        is_older = called_at(steps, name, own) is None and called_at(steps, name, args) is not None
        return args if is_older else own


def agent_call_id(agent: Any, call_id: str | None) -> str:
    """Return the value of ``AgentCall.made_by`` for a call.

    The text distinguishes calls with equal arguments. The agent may be None.
    """
    return f"{getattr(agent, 'name', None) or ''}/{call_id or ''}"


def called_at(steps: AsyncSteps, name: str, compared: Any) -> int | None:
    """Return the journal position of a call's step.

    Args:
        name: the name of the call's step.
        compared: the data that distinguishes the step from others of its name
            (``AgentCall.compared``).

    Returns:
        The position, counted from 0 at the first entry that the function has not received yet. A
            step that the round has begun comes after all entries. None if the function has already
            requested the step, or if the run has not begun it.
    """
    return steps.place_ahead("step", name, digest_of(compared))


def is_asked_first(steps: AsyncSteps, call: AgentCall, name: str, compared: Any) -> bool | None:
    """Return whether the run asked a person before it carried out a call.

    Args:
        name: the name of the call's step.
        compared: as for ``called_at``.

    Returns:
        True if the run asked a person first. False if it carried the call out without asking, or
            before it asked. None if the call is new: the run has neither asked nor carried it out.
    """
    asked, called = call.asked_at(steps), called_at(steps, name, compared)
    if called is None:
        return None if asked is None else True
    return asked is not None and asked < called


def _answered(steps: AsyncSteps) -> Mapping[str, Any] | None:
    """Return the data of an approval question that was just answered.

    Returns:
        None if there is no such question, or if the workflow's function already has the answer.
    """
    asked = steps.context.asked
    approval = asked.get("approval") if isinstance(asked, Mapping) else None
    return (
        approval if isinstance(approval, Mapping) and steps.is_answered_ahead("approve") else None
    )


async def decision(
    steps: AsyncSteps, call: AgentCall, *, fault: str = ""
) -> Approved | ApprovalRefused:
    """Return a person's decision about a tool call.

    The question is repeated until the answer is valid.

    Args:
        fault: what was wrong with an earlier answer. Empty if there was none.
    """
    while True:
        question, data = call.as_asked(steps, fault).question(fault)
        answer = await steps.ask(question, data, name="approve")
        try:
            decided = read_answer(answer)
        except InvalidInput as error:
            fault = str(error)
            continue
        if not (call.fixed and isinstance(decided, Approved) and decided.args is not None):
            return decided
        fault = "the arguments of this call cannot be changed: approve or refuse it"
