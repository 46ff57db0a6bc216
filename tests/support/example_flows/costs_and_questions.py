"""Flows that spend tokens and money, and flows that ask a person."""

from __future__ import annotations

from typing import Any

from perdure import (
    Command,
    ControllerExecutorFlow,
    Finish,
    Interrupt,
    RoundContext,
    command,
    register,
)


@register("thinker")
class Thinker(ControllerExecutorFlow):
    """Each decision costs the amounts of the inputs; it notes as often as they say.

    Inputs: ``notes``, ``tokens`` and ``money`` of each decision, ``seconds`` that one takes.
    """

    budgets = {"tokens": 10_000, "money": 1.0}  # noqa: RUF012

    def decide(self, context: RoundContext) -> Command | Finish:
        """Decide, and be charged for it."""
        number = len(context.history)
        context.progress(number, context.inputs["notes"], "I should write this down")
        if context.inputs.get("seconds") and context.cancelled.wait(context.inputs["seconds"]):
            context.raise_if_stopped()
        tokens = context.inputs["tokens"]
        context.tell(model="parrot-1")
        context.spend(
            tokens=tokens,
            input_tokens=tokens - 10,
            output_tokens=10,
            requests=1,
            money=context.inputs.get("money", 0),
        )
        if number >= context.inputs["notes"]:
            return Finish(f"{number} notes")
        return Command(
            "note",
            {"text": f"number {number}"},
            {"thought": "I should write this down before I forget it"},
        )

    @command(idempotent=True)
    def note(self, text: str) -> str:
        """Write something down."""
        return f"noted {text}"


@register("careful")
class Careful(ControllerExecutorFlow):
    """Wants to remove the path in the goal; a person has to approve that, and the result is the
    answer.
    """

    def decide(self, context: RoundContext) -> Command | Finish:
        """Return the one command, then the end."""
        if context.observation is not None:
            return Finish(context.observation)
        return Command(
            "remove", {"path": context.goal, "recursive": True}, {"thought": "it is in the way"}
        )

    @command(approval="always")
    def remove(self, path: str, recursive: bool = False) -> str:
        """Remove a file or a directory."""
        return f"removed {path}{' and all in it' if recursive else ''}"


@register("doubter")
class Doubter(ControllerExecutorFlow):
    """Asks at once what has become of a payment, as a command in doubt does; the answer is the answer."""

    def decide(self, context: RoundContext) -> Any:
        """Ask, once."""
        if context.answered:
            return Finish(context.answer)
        about = {
            "command": "pay",
            "args": {"to": "ann", "amount": 5},
            "key": f"{context.run_id}:0:x",
        }
        return Interrupt(
            "pay was begun, and its round was cut off (a lost worker, its time limit, or a stop): has it happened?",
            {"in_doubt": about},
            3600,
            "retry",
        )

    @command
    def pay(self, to: str, amount: int) -> None:
        """Never called."""
