"""Where a person has a say: a node that asks between two commands, a command that asks, a controller that is a person."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flows.commands import command
from flows.context import RoundContext
from flows.controllers import Controller, controller
from flows.nodes import node
from flows.outcomes import Interrupt

#: The answer of a run that a person left.
EXIT_ANSWER = "The user has chosen to exit before a final answer was generated."


@node("human_feedback")
def human_feedback(given: Mapping[str, Any], context: RoundContext) -> Mapping[str, Any] | Interrupt:
    """Put it in a ring as ``Node("HumanFeedback", human_feedback)``; in YAML it is named ``human_feedback``.

    It interrupts the run; the answer given to resume becomes the value ``human_feedback``, and ``q`` ends the run
    with the status ``unfinished``. (The ring's ``early_exit_key`` must be its default.)
    """
    if not context.answered:
        return Interrupt("What do you think of the last observation? (q leaves the run)", data={"observation": given.get("observation")})
    if isinstance(context.answer, str) and context.answer.strip().lower() == "q":
        return {"EARLY_EXIT": True, "answer": EXIT_ANSWER, "status": "unfinished"}
    return {"human_feedback": context.answer}


@command(name="ask_user", idempotent=True)
@command(name="ask", idempotent=True)
def ask(context: RoundContext, question: str) -> Any:
    """Ask a person."""
    return context.answer if context.answered else Interrupt(question)


@controller("person")
class Person(Controller):
    """Whoever answers the interrupt decides, with a reply as a model would give it: ``{"command": ..., "command_args": {...}}``."""

    reads_errors = True

    def decide(self, context: RoundContext) -> Any:
        """The answer of a person, or of a program that answers for one."""
        if context.answered:
            return context.answer
        asked = 'Which command comes next? ({"command": "name", "command_args": {...}}; the command finish takes the answer)'
        return Interrupt(asked, data={"goal": context.goal, "observation": context.observation})
