"""A flow whose only command is a shell command, the goal of its run."""

from __future__ import annotations

from perdure import Command, ControllerExecutorFlow, Finish, RoundContext, register
from perdure.flows.executors import run_shell


@register("boxed")
class Boxed(ControllerExecutorFlow):
    """Runs its goal with a shell, and answers with its observation."""

    runs_shell = True
    reads_errors = True
    commands = (run_shell,)

    def decide(self, context: RoundContext) -> Command | Finish:
        if context.history:
            return Finish(context.observation)
        return Command("run_shell", {"command_line": context.goal, "seconds": 600})
