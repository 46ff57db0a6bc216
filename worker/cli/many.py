"""What `retry` and `delete` do to many runs: ask, do one after the other, say of each what became of it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from datetime import timedelta

import click

from flows.durations import seconds_of
from worker.cli import output
from worker.words.texts import count

yes_option = click.option("--yes", is_flag=True, help="Do not ask before doing it to many.")


def age(_ctx: click.Context, _option: click.Parameter, text: str | None) -> timedelta | None:
    """The callback of an option that takes ``90s``, ``30m``, ``12h``, ``7d``, ``2w`` or a duration of ISO 8601."""
    if text is None:
        return None
    try:
        return timedelta(seconds=seconds_of(text))
    except (ValueError, OverflowError) as error:
        raise click.BadParameter(f"{text!r} is no age; expected 90s, 30m, 12h, 7d, 2w or PT12H") from error


def each(ids: Sequence[str], verb: str, done: str, act: Callable[[str], object], *, yes: bool, as_json: bool) -> None:
    """Do ``act`` to each run, after asking on a terminal.

    Args:
        verb, done: for the question ("Delete") and the line of each run ("is deleted").
        act: raises InvalidTransition, Stale, RunNotFound or DamagedRun where a run changed meanwhile; then it is left as it is.
    """
    from worker.errors import DamagedRun, InvalidTransition, RunNotFound, Stale

    ask = bool(ids) and not yes and sys.stdin.isatty() and sys.stdout.isatty()
    if ask and not click.confirm(f"{verb} {count(len(ids), 'run')}?"):
        click.echo("nothing was done")
        return
    told = []
    for run_id in ids:
        why_not = None
        try:
            act(run_id)
        except (InvalidTransition, Stale, RunNotFound, DamagedRun) as error:
            why_not = str(error)
        told.append({"run_id": run_id, "why_not": why_not})
        if not as_json:
            click.echo(f"{run_id} {done}" if why_not is None else f"{run_id} is left as it is: {why_not}")
    if as_json:
        output.document(told)
    elif not ids:
        click.echo("there are no such runs")
