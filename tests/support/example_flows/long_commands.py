"""A flow whose commands last until they are asked to stop."""

from __future__ import annotations

from pathlib import Path

from perdure import Command, ControllerExecutorFlow, Finish, RoundContext, command, register


@register("heeds")
class Heeds(ControllerExecutorFlow):
    """Carries out the command that the goal names; it makes the file ``begun`` when it begins."""

    def decide(self, context: RoundContext) -> Command | Finish:
        return Command(context.goal)

    @command(idempotent=True)
    def harmless(self, context: RoundContext) -> str:
        return self._last(context)

    @command
    def plain(self, context: RoundContext) -> str:
        return self._last(context)

    def _last(self, context: RoundContext) -> str:
        Path(context.inputs["begun"]).touch()
        while not context.cancelled.wait(0.01):
            context.raise_if_stopped()
        context.raise_if_stopped()
        return "done"
