"""inbox: what waits for people."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import click

from worker.cli import output
from worker.cli.on_app import program
from worker.cli.options import json_option, url_option
from worker.cli.server import client_for
from worker.words.asked import KINDS, attempt, or_else, what
from worker.words.texts import duration, plain, since

if TYPE_CHECKING:
    from rich.console import Console

    from worker.waiting import Waiting


@click.command("inbox")
@click.option("--limit", metavar="N", type=click.IntRange(min=1), default=50, show_default=True, help="At most so many.")
@json_option
@url_option
def inbox_command(limit: int, as_json: bool, url: str | None) -> None:
    """What waits for people, longest first: what is asked, since when, until when, and how to answer it.

    In a pipe, a line each: run, flow, kind, since, deadline, what is asked, how to answer.
    """
    with client_for(url) as client:
        page = client.inbox(limit)
    for run_id in page.damaged:
        click.echo(f"run {run_id} is damaged and cannot be shown; holdfast why {run_id} says where", err=True)
    if as_json:
        output.document([waiting.to_dict() for waiting in page])
    elif not sys.stdout.isatty():
        for waiting in page:
            click.echo("\t".join(_row(waiting)))
    elif not len(page):
        click.echo("nothing waits for people")
    else:
        from rich.console import Console

        tell(Console(highlight=False), page.waiting)
    if page.cursor is not None:
        click.echo(f"there are more; --limit {limit * 4} shows them", err=True)


def tell(console: Console, waiting: Sequence[Waiting], now: datetime | None = None) -> None:
    """A few lines for each: what is to be read is wrapped, what is to be copied is left whole."""
    from rich.text import Text

    for number, each in enumerate(waiting):
        until = or_else(each, now)
        head = Text.assemble((each.run_id, "bold"), "  ", (KINDS[each.kind], "yellow"), f"  {duration(since(each.since, now))}")
        if until:
            head.append(f"  else {until}", "red")
        if number:
            console.print()
        console.print(head)
        asked, question = what(each), plain(each.question)
        about = plain(each.flow) if plain(each.goal) in (asked, question) else f"{plain(each.flow)}: {plain(each.goal)}"
        console.print(Text(about, "dim"), no_wrap=True, overflow="ellipsis")
        if each.command is None:
            console.print(Text(asked, "bold"))
        else:
            console.print(Text(question))
            console.print(Text(asked, "bold"), soft_wrap=True)
        for name, value in attempt(each):
            console.print(Text(f"{name}: {value}", "dim"), soft_wrap=True)
        for way in each.how(program()):
            console.print(Text(f"  {way}"), soft_wrap=True)


def _row(waiting: Waiting) -> tuple[str, ...]:
    until = waiting.deadline.isoformat() if waiting.deadline else ""
    return (
        waiting.run_id,
        plain(waiting.flow),
        waiting.kind,
        waiting.since.isoformat(),
        until,
        what(waiting),
        waiting.how(program())[0],
    )
