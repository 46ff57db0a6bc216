"""Parts of a flow that ask a person.

A node asks for feedback between two commands, a command asks a question, and a controller lets a
person decide.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perdure.flows.commands.command import command
from perdure.flows.commands.controller import Controller, controller
from perdure.flows.core.names import node
from perdure.flows.core.outcomes import Interrupt
from perdure.flows.rounds.context import RoundContext

#: The answer of a run that a person ended with ``q``.
EXIT_ANSWER = "The user has chosen to exit before a final answer was generated."


@node("human_feedback")
def human_feedback(
    state: Mapping[str, Any], context: RoundContext
) -> Mapping[str, Any] | Interrupt:
    """Ask a person for feedback on the last observation.

    Use it as ``Node("HumanFeedback", human_feedback)``, or as ``human_feedback`` in YAML. The node
    interrupts the run. The person's answer becomes the value ``human_feedback``. The answer ``q``
    ends the run with the status ``unfinished``, but only if the flow's ``early_exit_key`` is its
    default.
    """
    if not context.answered:
        return Interrupt(
            "What do you think of the last observation? (q ends the run)",
            data={"observation": state.get("observation")},
        )
    if isinstance(context.answer, str) and context.answer.strip().lower() == "q":
        return {"EARLY_EXIT": True, "answer": EXIT_ANSWER, "status": "unfinished"}
    return {"human_feedback": context.answer}


@command(name="ask_user", idempotent=True)
@command(name="ask", idempotent=True)
def ask(context: RoundContext, question: str) -> Any:
    """Return a person's answer, or the interrupt that asks for it."""
    return context.answer if context.answered else Interrupt(question)


@controller("person")
class Person(Controller):
    """A controller that lets a person decide.

    The person, or a program, answers an interrupt with a reply in the form of a model's reply:
    ``{"command": ..., "command_args": {...}}``.
    """

    reads_errors = True

    def decide(self, context: RoundContext) -> Any:
        """Return the person's decision, or the interrupt that asks for the decision."""
        if context.answered:
            return context.answer
        question = (
            'Which command comes next? ({"command": "name", "command_args": {...}}; '
            "the command finish takes the answer)"
        )
        return Interrupt(question, data={"goal": context.goal, "observation": context.observation})
