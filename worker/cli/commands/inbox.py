"""The command ``inbox``: runs that wait for a person."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import click

from perdure.worker.cli import output
from perdure.worker.cli.celery_command import program
from perdure.worker.cli.options import json_option, url_option
from perdure.worker.cli.target import reader_for
from perdure.worker.presentation.questions import KINDS, attempt, of_tree, or_else, what
from perdure.worker.presentation.text import duration, plain, since

if TYPE_CHECKING:
    from rich.console import Console

    from perdure.worker.domain.interrupt import PendingInterrupt


@click.command("inbox")
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(min=1),
    default=50,
    show_default=True,
    help="Show at most N runs.",
)
@json_option
@url_option
def inbox_command(limit: int, as_json: bool, url: str | None) -> None:
    """List the runs that wait for a person, longest wait first, and how to answer them.

    In a pipe, one line per run: run, flow, kind, since, deadline, question, how to answer, and of a
    child run the run at the top of its tree with its flow.
    """
    with reader_for(url) as client:
        page = client.inbox(limit)
    for run_id in page.damaged:
        click.echo(
            f"run {run_id} is damaged and cannot be shown; see `perdure why {run_id}`",
            err=True,
        )
    if as_json:
        output.document([waiting.to_dict() for waiting in page])
    elif not sys.stdout.isatty():
        for waiting in page:
            click.echo("\t".join(_row(waiting)))
    elif not len(page):
        click.echo("no run waits for an answer")
    else:
        from rich.console import Console

        print_inbox(Console(highlight=False), page.waiting)
    if page.cursor is not None:
        click.echo(f"there are more; see them with --limit {limit * 4}", err=True)


def print_inbox(
    console: Console, waiting: Sequence[PendingInterrupt], now: datetime | None = None
) -> None:
    """Print each run that waits for a person: its question, and the commands that answer it.

    Sentences are wrapped. Commands are not, so that a user can copy them.

    Args:
        console: The terminal to print on.
        waiting: The pending interrupts.
        now: The present time, for tests. None means that of this machine's clock.
    """
    from rich.text import Text

    for number, each in enumerate(waiting):
        until = or_else(each, now)
        head = Text.assemble(
            (each.run_id, "bold"),
            "  ",
            (KINDS[each.kind], "yellow"),
            f"  {duration(since(each.since, now))}",
        )
        if until:
            head.append(f"  else {until}", "red")
        if number:
            console.print()
        console.print(head)
        asked, question = what(each), plain(each.question)
        about = (
            plain(each.flow)
            if plain(each.heading) in (asked, question)
            else f"{plain(each.flow)}: {plain(each.heading)}"
        )
        console.print(Text(about, "dim"), no_wrap=True, overflow="ellipsis")
        if tree := of_tree(each):
            console.print(Text(f"for {tree}", "dim"), soft_wrap=True)
        if each.command is None:
            console.print(Text(asked, "bold"))
        else:
            console.print(Text(question))
            console.print(Text(asked, "bold"), soft_wrap=True)
        for name, value in attempt(each):
            console.print(Text(f"{name}: {value}", "dim"), soft_wrap=True)
        for way in each.how(program()):
            console.print(Text(f"  {way}"), soft_wrap=True)


def _row(waiting: PendingInterrupt) -> tuple[str, ...]:
    until = waiting.deadline.isoformat() if waiting.deadline else ""
    return (
        waiting.run_id,
        plain(waiting.flow),
        waiting.kind,
        waiting.since.isoformat(),
        until,
        what(waiting),
        waiting.how_in_one_line(program()),
        of_tree(waiting),
    )
