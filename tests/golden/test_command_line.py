"""The command line: commands, arguments, options and exit codes."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

import perdure as public
from perdure.worker.cli import exit_codes as exits
from perdure.worker.cli.celery_command import perdure_on_app
from perdure.worker.cli.main import perdure
from tests.golden.declarations import describe_default
from tests.golden.golden_files import compare

#: What click knows of a parameter beside its prose.
FACTS = ("required", "multiple", "envvar", "is_flag", "flag_value", "count", "hidden")
#: Packages whose errors reach the user of a command.
ERRORS = ("perdure.flows.errors", "perdure.worker.errors", "perdure.worker.embedded")


def test_commands_and_options_are_those_of_the_golden_file() -> None:
    compare(
        "command_line",
        {
            "commands": commands(perdure),
            "commands on an app": commands(perdure_on_app),
            "exit codes": {
                "all": {
                    code
                    for name, code in vars(exits).items()
                    if name.isupper() and type(code) is int
                },
                "of errors": exit_codes(),
            },
        },
    )


def commands(command: click.Command) -> dict[str, Any]:
    """Return the parameters of a command and of all commands below it."""
    context = click.Context(command)
    described: dict[str, Any] = {
        "options": {
            ", ".join([*param.opts, *param.secondary_opts]): parameter(context, param)
            for param in command.params
            if isinstance(param, click.Option)
        },
        "arguments": [
            {"name": param.human_readable_name, **parameter(context, param)}
            for param in command.params
            if isinstance(param, click.Argument)
        ],
    }
    if isinstance(command, click.Group):
        below = {
            name: command.get_command(context, name) for name in command.list_commands(context)
        }
        described["commands"] = {name: commands(each) for name, each in below.items() if each}
        assert len(described["commands"]) == len(below)
    return described


def parameter(context: click.Context, param: click.Parameter) -> dict[str, Any]:
    """Return the facts of an argument or option that differ from click's defaults."""
    facts = param.to_info_dict()
    default = param.get_default(context, call=False)
    described = {name: facts[name] for name in FACTS if facts.get(name) not in (None, False)}
    if facts["nargs"] != 1:
        described["nargs"] = facts["nargs"]
    if default is not None and "UNSET" not in repr(default):
        described["default"] = describe_default(default)
    kind = {key: value for key, value in facts["type"].items() if value not in (None, False)}
    described["type"] = {key: kind[key] for key in kind if key not in ("func", "name")}
    if getattr(param, "callback", None) is not None:
        described["has callback"] = True
    return described


def exit_codes() -> dict[str, int]:
    """Return the exit code of every public error."""
    classes = {
        each
        for name in ERRORS
        for each in (getattr(import_module(name), key) for key in dir(import_module(name)))
        if isinstance(each, type) and issubclass(each, Exception)
    }
    classes |= {
        getattr(public, name) for name in public.__all__ if _is_error(getattr(public, name))
    }
    return {cls.__name__: exits.code_of(cls.__new__(cls)) for cls in classes if _is_error(cls)}


def _is_error(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, Exception)
