"""The command line: commands, arguments, options and exit codes."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from itertools import count
from typing import Any

import click

from perdure.worker.cli import exit_codes as exits
from perdure.worker.cli.celery_command import perdure_on_app
from perdure.worker.cli.main import perdure
from tests.golden.declarations import describe_default
from tests.golden.golden_files import compare

#: What click knows of a parameter beside its prose.
FACTS = ("required", "multiple", "envvar", "is_flag", "flag_value", "count", "hidden")
#: Packages whose errors reach the user of a command.
ERRORS = (
    "perdure",
    "perdure.flows.core.errors",
    "perdure.worker.errors",
    "perdure.worker.embedded",
)


def test_commands_and_options_are_those_of_the_golden_file() -> None:
    everything = {
        "commands": dict(commands("PRODUCT", perdure)),
        "commands on an app": dict(commands("celery PRODUCT", perdure_on_app)),
        "exit codes": {
            code for name, code in vars(exits).items() if name.isupper() and type(code) is int
        },
        "exit codes of errors": exit_codes(),
    }
    compare("command_line", everything, depth=3)


def commands(name: str, command: click.Command) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield a command and all commands below it, with the facts of its parameters.

    Arguments have a number, because they are given in this order.
    """
    context = click.Context(command)
    numbers = count(1)
    facts: dict[str, Any] = {}
    for param in command.params:
        if isinstance(param, click.Argument):
            key = f"{next(numbers)} {param.human_readable_name}"
        else:
            key = ", ".join([*param.opts, *param.secondary_opts])
        facts[key] = parameter(context, param)
    yield name, facts
    if isinstance(command, click.Group):
        for key in command.list_commands(context):
            below = command.get_command(context, key)
            assert below is not None
            yield from commands(f"{name} {key}", below)


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
    values = [getattr(module, key) for module in map(import_module, ERRORS) for key in dir(module)]
    classes = {each for each in values if isinstance(each, type) and issubclass(each, Exception)}
    return {cls.__name__: exits.code_of(cls.__new__(cls)) for cls in classes}
