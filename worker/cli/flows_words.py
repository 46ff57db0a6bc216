"""The commands that `flows` takes as its first word: check, pause and unpause."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

#: First word: its module of worker.cli (the command in it is ``WORD_command``), and its line in the help.
WORDS = {
    "check": ("flows_check", "check FILE: whether a file is a flow, and if not, all that is wrong with it."),
    "pause": ("flows_pause", "pause NAME: no round of its runs is claimed any more."),
    "unpause": ("flows_pause", "unpause NAME: its runs go on."),
}


class WithWords(click.Command):
    """``flows``, which also takes one of the words and what belongs to it."""

    def make_context(self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any) -> click.Context:
        """That of the word's command, where a word comes first."""
        if args and args[0] in WORDS:
            command = getattr(import_module(f"worker.cli.{WORDS[args[0]][0]}"), f"{args[0]}_command")
            assert isinstance(command, click.Command)
            return command.make_context(f"{info_name} {args[0]}", args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Tells of the words."""
        with formatter.section("Also"):
            formatter.write_dl([(f"{ctx.command_path} {line.partition(': ')[0]}", line.partition(": ")[2]) for _, line in WORDS.values()])
