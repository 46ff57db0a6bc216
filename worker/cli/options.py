"""Options that many commands have."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

_F = TypeVar("_F", bound=Callable[..., Any])

url_option = click.option(
    "--url", metavar="URL", help="The server: redis://, rediss://, unix:// or redis+sentinel://; or https:// of a control room."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
#: The live ones first, then those that have ended.
STATUSES = ("queued", "running", "interrupted", "stopped", "completed", "errored")
status_option = click.option("--status", type=click.Choice(STATUSES), help="Only runs of this status.")
flow_option = click.option("--flow", metavar="FLOW", help="Only runs of this flow.")
run_argument = click.argument("run_id", metavar="RUN")


def _count(value: str | int) -> int:
    """A number of processes; ``auto`` is one for each processor that this process may use."""
    if value == "auto":
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not str(value).isdecimal() or int(value) < 1:
        raise click.BadParameter(f"{value!r} is neither a number from 1 on nor auto.")
    return int(value)


processes_option = click.option(
    "--processes", metavar="N|auto", type=_count, default=1, help="How many such workers, watched over by one process more."
)


def model_options(command: _F) -> _F:
    """``--model`` and ``--model-url``."""
    url = click.option("--model-url", metavar="URL", help="A server that speaks OpenAI's protocol, such as http://localhost:11434/v1.")
    name = click.option("--model", metavar="NAME", help="The model of flows that name none: provider:name, or the server's name for it.")
    return name(url(command))
