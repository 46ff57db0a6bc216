"""Commands: the group that imports a command's module when the command runs, not before."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import ClassVar

import click

#: Command: where it is (module of worker.cli, name in it), and its line in the help.
COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("demo", "See it work: a real bisection, its worker killed on the way."),
    "up": ("up", "A server, a worker and the dashboard on this machine, until Ctrl-C."),
    "worker": ("worker", "A worker: plays the rounds of runs."),
    "server": ("control_room", "The HTTP API and the dashboard."),
    "workers": ("workers", "The workers that are there."),
    "flows": ("flows", "The flows that can be submitted, and their inputs."),
    "submit": ("submit", "Hand over a goal; from then on it is not lost."),
    "list": ("runs", "The runs, newest first."),
    "show": ("show", "Everything about one run."),
    "watch": ("watch", "See a run live, round by round."),
    "wait": ("wait", "Wait until a run has ended or asks something; the exit code says how."),
    "why": ("why", "Why a run is where it is, and what to do."),
    "inbox": ("inbox", "What waits for people, and how to answer."),
    "stop": ("stop", "Stop a run, or all runs of a flow or a status."),
    "resume": ("resume", "Go on with an interrupted run (with its answer), a stopped or an unfinished one."),
    "retry": ("going_on", "Take an errored run up again at the failed step."),
    "delete": ("going_on", "Remove a run that has ended."),
    "token": ("tokens", "Who may use the HTTP API and the dashboard: create, list and revoke tokens."),
    "doctor": ("doctor", "What is wrong with the server or the settings, and what to do."),
}


class Commands(click.Group):
    """A group whose commands are known by name; ``worker/cli/MODULE.py`` has a command object named ``NAME_command``."""

    #: The commands of this group.
    commands_here: ClassVar[Mapping[str, tuple[str, str]]] = COMMANDS

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands_here)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.commands_here:
            return None
        module, line = self.commands_here[cmd_name]
        command = getattr(import_module(f"worker.cli.{module}"), f"{cmd_name.replace('-', '_')}_command")
        assert isinstance(command, click.Command)
        command.short_help = line
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.commands_here and not args[0].startswith("-"):
            import difflib

            near = difflib.get_close_matches(args[0], self.commands_here, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else f"There are: {', '.join(self.commands_here)}."
            raise click.UsageError(f"No such command {args[0]!r}. {hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in self.commands_here.items()])
