"""Options that several commands share, and the parsers of their values."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, TypeVar

import click

_F = TypeVar("_F", bound=Callable[..., Any])

url_option = click.option(
    "--url",
    metavar="URL",
    help="Server: redis://, rediss://, unix://, redis+sentinel://, or https:// of an HTTP server.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
#: The statuses of live runs first, then those of ended runs.
STATUSES = ("queued", "running", "interrupted", "stopped", "completed", "errored")
status_option = click.option(
    "--status", type=click.Choice(STATUSES), help="Only runs with this status."
)
flow_option = click.option("--flow", metavar="FLOW", help="Only runs of this flow.")
run_argument = click.argument("run_id", metavar="RUN")


def _count(value: str | int) -> int:
    """Parse the value of ``--processes`` into a number of processes.

    ``auto`` means one process for each CPU that this process may use.

    Raises:
        BadParameter: The value is neither ``auto`` nor a whole number from 1 on.
    """
    if value == "auto":
        return (
            len(os.sched_getaffinity(0))
            if hasattr(os, "sched_getaffinity")
            else os.cpu_count() or 1
        )
    if not str(value).isdecimal() or int(value) < 1:
        raise click.BadParameter(f"{value!r} is not a number from 1 on, nor auto.")
    return int(value)


processes_option = click.option(
    "--processes",
    metavar="N|auto",
    type=_count,
    default=1,
    help="Number of worker processes, plus a supervisor if more than 1.",
)


def model_options(command: _F) -> _F:
    """Add to a command the options ``--model`` and ``--model-url``."""
    url = click.option(
        "--model-url",
        metavar="URL",
        help="OpenAI-compatible server, such as http://localhost:11434/v1.",
    )
    name = click.option(
        "--model",
        metavar="NAME",
        help="Model for flows that name none: provider:name, or the server's name for it.",
    )
    return name(url(command))


def seconds(_ctx: click.Context, _option: click.Parameter, text: str | None) -> float | None:
    """Parse an option's duration into seconds. Return None if the option is missing.

    This is a callback of click. ``text`` is ``90s``, ``10m``, ``7d``, ``PT10M`` or a number of
    seconds.

    Raises:
        BadParameter: The text is not a duration.
    """
    from perdure.flows.core.durations import seconds_of

    try:
        return None if text is None else seconds_of(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def when(
    _ctx: click.Context, _option: click.Parameter, text: str | None
) -> datetime | timedelta | None:
    """Parse an option's time (ISO 8601) or duration. Return None if the option is missing.

    This is a callback of click. A duration is returned as a timedelta, which counts from now. A
    time is returned as an aware datetime. Without a time zone it is local time.

    Raises:
        BadParameter: The text is no time and no duration, or the date is out of range.
    """
    from perdure.flows.core.durations import EXPECTED, seconds_of

    if text is None:
        return None
    try:
        return timedelta(seconds=seconds_of(text))
    except OverflowError as error:
        raise click.BadParameter(f"{text!r} is out of range") from error
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(text.strip()).astimezone()
    except (ValueError, OverflowError) as error:
        raise click.BadParameter(
            f"{text!r} is not a time; expected {EXPECTED}, or a time like 2026-11-22T08:00"
        ) from error
