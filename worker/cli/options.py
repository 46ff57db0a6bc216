"""Options that many commands have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

_F = TypeVar("_F", bound=Callable[..., Any])

url_option = click.option("--url", metavar="URL", help="The server: redis://, rediss://, unix:// or redis+sentinel://.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
#: The live ones first, then those that have ended.
STATUSES = ("queued", "running", "interrupted", "stopped", "completed", "errored")
status_option = click.option("--status", type=click.Choice(STATUSES), help="Only runs of this status.")
flow_option = click.option("--flow", metavar="FLOW", help="Only runs of this flow.")
run_argument = click.argument("run_id", metavar="RUN")


def model_options(command: _F) -> _F:
    """``--model`` and ``--model-url``."""
    url = click.option("--model-url", metavar="URL", help="A server that speaks OpenAI's protocol, such as http://localhost:11434/v1.")
    name = click.option("--model", metavar="NAME", help="The model of flows that name none: provider:name, or the server's name for it.")
    return name(url(command))
