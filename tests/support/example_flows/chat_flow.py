"""A flow of a chat: it thinks, speaks, calls tools, asks for an approval, and answers."""

from __future__ import annotations

import json
from typing import Any

from perdure import (
    Command,
    ControllerExecutorFlow,
    Finish,
    RetryableError,
    RoundContext,
    command,
    flow_command,
    register,
)


@register("chatting")
class Chatting(ControllerExecutorFlow):
    """Looks a price up, pays if a person approves, and tells. The first attempt may fail halfway."""

    commands = (flow_command("delegate", flow="chatting"),)

    def decide(self, context: RoundContext) -> Command | Finish:
        done = [turn.command.name for turn in context.history if turn.command]
        if context.goal.startswith("let another"):
            return (
                Finish(f"It: {context.observation}")
                if done
                else Command("delegate", {"goal": "tea"})
            )
        if not done:
            context.stream("What does it cost?", "thinking")
            context.stream("I look ")
            if context.attempt <= context.inputs.get("fails", "fail" in context.goal):
                raise RetryableError("half of it")
            context.stream("it up.")
            return called(context, "look_up", {"item": context.goal})
        if done == ["look_up"] and not context.inputs.get("free"):
            return called(context, "pay", {"amount": 3})
        answer = f"Done: {json.dumps(context.observation)[:20]}"
        for word in answer.split(" "):
            context.stream(word if word == "Done:" else f" {word}")
        return Finish(answer)

    @command(idempotent=True)
    def look_up(self, item: str) -> dict[str, Any]:
        """Look a price up."""
        return {"item": item, "price": 3, "notes": "x" * 500}

    @command(approval="always")
    def pay(self, amount: int) -> str:
        """Pay an amount."""
        return f"paid {amount}"


def called(context: RoundContext, name: str, args: dict[str, Any]) -> Command:
    """Show the arguments of a call as they come, and call."""
    text = json.dumps(args)
    for piece in (text[:5], text[5:]):
        context.stream(piece, "arguments", name)
    return Command(name, args)
