"""The console command ``perdure``. A subcommand is imported only when it runs.

This module imports click and nothing else that is slow.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import ClassVar, NoReturn

import click

from perdure.worker.cli import exit_codes
from perdure.worker.cli.interrupts import raise_on
from perdure.worker.features import features

HOME = "perdure.worker.cli.commands"
#: By command: the name of its module in HOME (or the full name), and its line in the help.
COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("demo", "See it work: a run with three agents whose worker is killed."),
    "up": ("up", "Run a local server, a worker and the dashboard until Ctrl-C."),
    "worker": ("worker", "Run a worker until Ctrl-C."),
    "server": ("server", "Serve the HTTP API and the dashboard."),
    "workers": ("workers", "List the workers."),
    "flows": ("flows", "List the flows, or show a flow's inputs."),
    "again": ("again", "Submit a run once more, changed or as it was."),
    "submit": ("submit", "Submit a goal; when this returns, the run is stored."),
    "fork": ("fork", "Play a run anew from one of its rounds on, as a new run."),
    "list": ("list", "List the runs, newest first."),
    "show": ("show", "Show the state, answer and history of a run."),
    "watch": ("watch", "Watch a run live, round by round."),
    "wait": ("watch", "Wait until a run ends or asks something."),
    "history": ("history", "List the checkpoints of a LangGraph graph's run."),
    "tree": ("tree", "List the runs that a run has started, and theirs."),
    "why": ("why", "Explain the state of a run, and what to do."),
    "inbox": ("inbox", "List the runs that wait for a person, and how to answer."),
    "stop": ("stop", "Stop a run, or all runs of a flow or a status."),
    "resume": ("resume", "Continue an interrupted, stopped or unfinished run."),
    "add": ("add", "Add to the budgets of a run, whatever it does."),
    "signal": ("signal", "Send a signal to a run that waits for it, or will."),
    "send": ("send", "Send a message to a conversation."),
    "thread": ("send", "Show the messages of a conversation."),
    "say": ("say", "Say something to a run that works."),
    "ask": ("say", "Ask a run that works, and wait for its reply."),
    "value": ("value", "Show what the rounds of a run have returned so far."),
    "retry": ("retry", "Retry an errored run at the failed step."),
    "delete": ("retry", "Delete a run that has ended."),
    **{
        name: (f"perdure.worker.features.{feature.name}.command", line)
        for feature in features()
        for name, line in feature.commands.items()
    },
    "token": ("token", "Manage tokens of the HTTP API and the dashboard."),
    "doctor": ("why", "Check the server and the settings."),
    "size": ("size", "Compute memory, disk and workers for runs a day."),
}


#: Names that other tools use for a command, by the hint with the right command.
SYNONYMS: Mapping[str, tuple[str, ...]] = {
    "To see a run: perdure show RUN. All runs: perdure list. Why it waits: perdure why RUN": (
        "status", "state", "get", "info", "describe", "inspect", "view", "result", "results",
        "output", "query",
    ),
    "To stop a run: perdure stop RUN": (
        "cancel", "kill", "abort", "terminate", "interrupt", "revoke", "end",
    ),
    "To answer the question of a run: perdure resume RUN --approve, --refuse or --answer JSON. "
    "All open questions: perdure inbox": (
        "approve", "reject", "deny", "refuse", "answer", "reply", "respond", "confirm", "accept",
        "decline", "approvals", "questions", "pending",
    ),
    'To start a run: perdure submit FLOW "GOAL"': (
        "run", "start", "exec", "execute", "trigger", "launch", "create", "new", "enqueue",
        "call", "invoke", "job",
    ),
    "To follow a run: perdure watch RUN. What its worker logs is in the output of "
    "perdure worker": ("logs", "log", "events", "tail", "follow", "attach", "trace"),
    "For help: perdure --help, or perdure COMMAND --help": ("help", "usage", "man", "commands"),
    "To list the runs: perdure list": ("ls", "ps", "runs", "jobs", "tasks", "workflows", "top"),
    "To delete a run: perdure delete RUN": ("rm", "remove", "del", "purge", "clean", "prune"),
    "To continue a run: perdure resume RUN": ("continue", "unstop", "proceed", "recover"),
    "To retry an errored run at the failed step: perdure retry RUN. "
    "To submit it once more: perdure again RUN": ("restart", "rerun", "replay", "redo", "reset"),
    "To pause a flow: perdure flows pause FLOW. To stop a run: perdure stop RUN": (
        "pause", "suspend", "hold", "freeze",
    ),
    "To unpause a flow: perdure flows unpause FLOW. To continue a run: perdure resume RUN": (
        "unpause", "unsuspend",
    ),
    "To check the server and the settings: perdure doctor": (
        "health", "check", "ping", "diagnose", "config", "settings",
    ),
    "To serve the dashboard and the HTTP API: perdure server": (
        "serve", "dashboard", "ui", "web", "api", "http",
    ),
    "To list the workers: perdure workers. The lengths of the queues are on the dashboard "
    "(perdure server)": ("queue", "queues", "nodes", "fleet"),
    "To see the version: perdure --version": ("version",),
}  # fmt: skip
#: The hint with the right command, by the name that other tools use for it.
HINTS = {name: hint for hint, names in SYNONYMS.items() for name in names}


@contextmanager
def paused_collector() -> Iterator[None]:
    """Disable Python's garbage collector in the ``with`` block.

    Modules are imported in the block. The collector would search the new objects many times, and
    find no garbage. These searches take a tenth of the CPU time of ``perdure list`` (``python -m
    benchmarks start``). At the end of the block, all objects are moved to the oldest generation, so
    the next search of young objects skips them. A collector that was disabled before stays
    disabled.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.unfreeze()
        if was_enabled:
            gc.enable()


class Commands(click.Group):
    """A click group that imports each command on demand.

    The click command ``NAME`` is the object ``NAME_command`` of its module.
    """

    #: The commands of this group, in the format of COMMANDS.
    commands_here: ClassVar[Mapping[str, tuple[str, str]]] = COMMANDS
    #: The hints for names that other tools have for these commands.
    hints_here: ClassVar[Mapping[str, str]] = {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands, in the order of the help text."""
        return list(self.commands_here)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the click command of this name, or None if the group has none."""
        if cmd_name not in self.commands_here:
            return None
        module, line = self.commands_here[cmd_name]
        with paused_collector():
            home = import_module(module if "." in module else f"{HOME}.{module}")
        command = getattr(home, f"{cmd_name.replace('-', '_')}_command")
        assert isinstance(command, click.Command)
        command.short_help = line
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the click command that the first argument names.

        Returns:
            The command's name, the command, and the other arguments.

        Raises:
            UsageError: The command does not exist. The message suggests a command.
        """
        if args and args[0] not in self.commands_here and not args[0].startswith("-"):
            import difflib

            near = difflib.get_close_matches(args[0], self.commands_here, n=1)
            hint = self.hints_here.get(args[0].lower()) or (
                f"Did you mean {near[0]!r}?"
                if near
                else f"Commands: {', '.join(self.commands_here)}."
            )
            raise click.UsageError(f"No such command {args[0]!r}. {hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands into the help text, without importing their modules."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in self.commands_here.items()])


class TopCommands(Commands):
    """The click group of ``perdure``, with all commands."""

    hints_here = HINTS


@click.command(
    cls=TopCommands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
    epilog="The server is that of --url, PERDURE_REDIS_URL or config/worker.toml, else that of "
    "`perdure up`, else a safe one on localhost. Exit codes: 0 done, 1 internal error or damaged "
    "run, 2 usage, 3 no such run or flow, 7 no server, 8 not possible in this state or not allowed "
    "to this user, 130 interrupted by you.",
)
@click.version_option(package_name="perdure", message="%(prog)s %(version)s")
def perdure() -> None:
    """Run durable, long-running goals as jobs on Celery and Redis."""


def main() -> NoReturn:
    """Run the command in ``sys.argv``. Exit the process with the command's exit code."""
    for stream in (sys.stdout, sys.stderr):
        # A goal may contain characters that the terminal's encoding lacks; printing must not fail.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    raise_on(signal.SIGINT)
    exit_code = run(sys.argv[1:])
    # Python ends a process with a search of all objects for garbage, a quarter of the CPU time of
    # `perdure list` (`python -m benchmarks start`). Frozen objects are not searched.
    gc.freeze()
    # Python remembers a KeyboardInterrupt that leaves code compiled from a text, as dataclasses do
    # it, and would end `python -m perdure` by SIGINT although `run` handled it. The next code from
    # a text makes Python forget it (run_eval_code_obj in CPython's pythonrun.c).
    exec("")  # noqa: S102
    sys.exit(exit_code)


def run(arguments: list[str]) -> int:
    """Run one CLI command. Return its exit code.

    An error of the command is printed on stderr as one sentence, and is not raised. If the reader
    of standard output has closed the pipe, that counts as success. A SystemExit is not caught.

    Args:
        arguments: The command's name and arguments, without the name of the program.
    """
    if os.getcwd() not in sys.path:
        # Flow modules are found here. Last in the path, they replace none of Perdure's modules.
        sys.path.append(os.getcwd())
    try:
        with perdure.make_context("perdure", arguments) as context:
            perdure.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except BrokenPipeError:
        # The reader of the output has closed the pipe. Python would report that in its last flush.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return exit_codes.DONE
    except (Exception, KeyboardInterrupt) as error:
        return exit_codes.report_error(error)
    return exit_codes.DONE
