"""The page of the command line: each command with its arguments and options, from click."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import click

from perdure.worker.cli.celery_command import perdure_on_app
from perdure.worker.cli.commands.flows import SUBCOMMANDS, FlowsCommand
from perdure.worker.cli.main import perdure
from tests.reference.errors import EXIT_CODES
from tests.reference.markdown import anchor, code, items, page, paragraph, table, text

#: Width of the usage line. It is wide enough for every command of ours.
WIDTH = 100
ON_AN_APP = "celery -A APP perdure"


def pages() -> dict[str, str]:
    """Return the page by its path in ``docs/reference/``."""
    everything = dict(commands())
    plain = {name: each for name, each in everything.items() if name.startswith("perdure")}
    on_app = {name: each for name, each in everything.items() if name not in plain}
    rows = [
        (f"[`{name}`](#{anchor(name)})", text(command.get_short_help_str(200)))
        for name, command in plain.items()
    ]
    exits = table(("Code", "Meaning"), ((f"`{number}`", text) for number, text in EXIT_CODES))
    introduction = paragraph(
        "Every command has `--help`. Options of the server (`--url`) and of the output (`--json`)"
        " mean the same for all commands. [Settings](settings.md) come from the environment and"
        " from `config/worker.toml`."
    )
    return {
        "cli.md": page(
            "Command line",
            introduction,
            f"## Exit codes\n\n{exits}",
            f"## Commands\n\n{table(('Command', 'What it does'), rows)}",
            *(entry(name, command) for name, command in plain.items()),
            f"## `{ON_AN_APP}`",
            paragraph(
                "An app that `perdure.install` was called for has commands of the same names. They"
                " do the same on the server of the app."
            ),
            *_differences(on_app, plain),
        )
    }


def commands() -> Iterator[tuple[str, click.Command]]:
    """Yield every command with its full name: those of ``perdure``, then those on a Celery app."""
    yield from _below("perdure", perdure)
    yield from _below(ON_AN_APP, perdure_on_app)


def entry(name: str, command: click.Command) -> str:
    """Return the section of one command."""
    context = click.Context(command, info_name=name)
    usage = " ".join([name, *command.collect_usage_pieces(context)])
    blocks = [f"## `{name}`", code(usage, "text"), help_of(command)]
    described = list(options(command))
    if described:
        blocks += ["**Options**", items(f"{names}: {text(about)}" for names, about in described)]
    if command.epilog:
        blocks.append(paragraph(text(inspect.cleandoc(command.epilog))))
    return "\n\n".join(filter(None, blocks))


def _differences(
    on_app: dict[str, click.Command], plain: dict[str, click.Command]
) -> Iterator[str]:
    """Yield the commands on an app with other options than the plain ones, then all others."""
    different, same = [], []
    for name, command in on_app.items():
        counterpart = plain["perdure" + name.removeprefix(ON_AN_APP)]
        here, there = ({names for names, _ in options(each)} for each in (command, counterpart))
        words = [
            f"{word} {', '.join(sorted(some))}"
            for word, some in (("without", there - here), ("with", here - there))
            if some
        ]
        if words:
            different.append(f"`{name}`: {', '.join(words)}")
        else:
            same.append(f"`{name}`")
    if different:
        yield "These have other options:"
        yield items(different)
    yield "These have the same options:"
    yield items(same)


def help_of(command: click.Command) -> str:
    """Return a command's help as Markdown; ``\\b`` keeps the lines of a paragraph as they are."""
    blocks = []
    for block in inspect.cleandoc(command.help or "").split("\n\n"):
        if block.startswith("\b\n"):
            blocks.append(code(block.removeprefix("\b\n"), "text"))
        else:
            blocks.append(paragraph(text(block)))
    return "\n\n".join(filter(None, blocks))


def options(command: click.Command) -> Iterator[tuple[str, str]]:
    """Yield the names and the description of each option that is not hidden."""
    context = click.Context(command)
    for option in command.params:
        if not isinstance(option, click.Option) or option.hidden:
            continue
        names = ", ".join([*option.opts, *option.secondary_opts])
        value = "" if option.is_flag or option.count else f" {option.make_metavar(context)}"
        about = " ".join(filter(None, [option.help or "", *_facts(context, option)]))
        yield f"`{names}{value}`", about


def gaps() -> list[str]:
    """Return the commands and options without a help text."""
    return [
        gap
        for name, command in commands()
        for gap in (
            *([] if command.help else [name]),
            *(
                f"{name} {option.opts[0]}"
                for option in command.params
                if isinstance(option, click.Option) and not option.hidden and not option.help
            ),
        )
    ]


def _below(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    yield name, command
    if isinstance(command, FlowsCommand):  # not a group, since `flows NAME` shows a flow
        for below in SUBCOMMANDS:
            yield f"{name} {below}", command.subcommand(below)
    if isinstance(command, click.Group):
        context = click.Context(command)
        for below in command.list_commands(context):
            found = command.get_command(context, below)
            assert found is not None
            yield from _below(f"{name} {below}", found)


def _facts(context: click.Context, option: click.Option) -> Iterator[str]:
    default: Any = option.get_default(context, call=False)
    shown = default not in (None, False, "", (), []) and "UNSET" not in repr(default)
    if option.required:
        yield "Required."
    if option.multiple:
        yield "May be repeated."
    if shown and not callable(default) and f"efault: {default}" not in (option.help or ""):
        yield f"Default: `{default}`."
    if option.envvar:
        yield f"Variable: `{option.envvar}`."
