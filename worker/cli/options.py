"""Options that many commands have."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime, timedelta
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


def seconds(_ctx: click.Context, _option: click.Parameter, text: str | None) -> float | None:
    """The callback of an option that takes a duration: ``90s``, ``10m``, ``7d``, ``PT10M`` or seconds."""
    from flows.durations import seconds_of

    try:
        return None if text is None else seconds_of(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def when(_ctx: click.Context, _option: click.Parameter, text: str | None) -> datetime | timedelta | None:
    """The callback of an option that takes a duration from now, or a time of ISO 8601 (without a zone: the time here)."""
    from flows.durations import EXPECTED, seconds_of

    if text is None:
        return None
    try:
        return timedelta(seconds=seconds_of(text))
    except OverflowError as error:
        raise click.BadParameter(f"{text!r} leads out of the calendar") from error
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(text.strip()).astimezone()
    except (ValueError, OverflowError) as error:
        raise click.BadParameter(f"{text!r} is no time; expected {EXPECTED}, or a time like 2026-11-22T08:00") from error
