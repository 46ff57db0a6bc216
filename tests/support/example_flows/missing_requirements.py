"""Flows with a requirement that no machine has."""

from perdure import ControllerExecutorFlow, Finish, RoundContext, register


@register("lacking")
class Lacking(ControllerExecutorFlow):
    """Needs a package that is missing."""

    @property
    def missing(self) -> str | None:
        return "it needs perdure[magic]"

    def decide(self, context: RoundContext) -> Finish:
        return Finish("done")


@register("lacking_shell")
class LackingShell(Lacking):
    """Runs shell commands besides."""

    runs_shell = True
