"""Printing of results: tables on a terminal, tab-separated lines elsewhere, JSON on demand."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from perdure.worker.cli.celery_command import program
from perdure.worker.urls import place_of

if TYPE_CHECKING:
    from rich.table import Table

#: The colour of each status.
COLOURS = {
    "queued": "cyan",
    "running": "blue",
    "interrupted": "yellow",
    "stopped": "magenta",
    "completed": "green",
    "errored": "red",
}
#: The status text of a run that completed without finishing, and its colour.
UNFINISHED = re.compile(r"unfinished(?: after \d+ of \d+ cycles?)?")
UNFINISHED_COLOUR = "yellow"
#: Characters of one value that are shown on a terminal: about one screen of a narrow one.
MOST_SHOWN = 1000
#: Minimum width, in characters, of the column that shrinks when a table is too wide.
LEAST = 8


def document(value: Any) -> None:
    """Print a command's result as one JSON document.

    Characters beyond ASCII are escaped. On a terminal the document is indented, elsewhere it is on
    one line. A value that is no JSON is printed as its ``str``.
    """
    click.echo(json.dumps(value, indent=2 if sys.stdout.isatty() else None, default=str))


def table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    wide: str,
    nothing: str,
    spare: Sequence[str] = (),
) -> None:
    """Print a table on a terminal. Elsewhere, print tab-separated lines of all columns, no head.

    Args:
        columns: The heads of the columns.
        rows: The cells of each row.
        wide: The head of the column that shrinks when the terminal is narrow.
        nothing: The text to print on a terminal if there are no rows.
        spare: Heads of columns to leave out on a terminal, in this order, if it is not enough to
            shrink the column ``wide``.
    """
    if not sys.stdout.isatty():
        for row in rows:
            click.echo("\t".join(row))
        return
    if not rows:
        click.echo(nothing)
        return
    from rich.console import Console

    console = Console(highlight=False)
    console.print(drawn(columns, rows, wide, spare, console.width))


def drawn(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    wide: str,
    spare: Sequence[str],
    width: int,
) -> Table:
    """Return a rich table that fits a terminal of ``width`` characters.

    The column ``wide`` shrinks first, to LEAST characters at most. If that is not enough, ``spare``
    columns are left out one by one, in their order. The arguments are those of ``table``.
    """
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    widths = [max(cell_len(cell) for cell in cells) for cells in zip(columns, *rows, strict=True)]
    gives_way = columns.index(wide)
    shown = list(range(len(columns)))

    def room() -> int:
        return width - sum(widths[index] + 2 for index in shown if index != gives_way)

    for name in spare:
        if room() < min(LEAST, widths[gives_way]):
            shown.remove(columns.index(name))
    widths[gives_way] = max(LEAST, min(widths[gives_way], room()))
    # The widths are set here, because rich would drop whole columns to make the table fit.
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for index in shown:
        table.add_column(columns[index], no_wrap=True, overflow="ellipsis", width=widths[index])
    for row in rows:
        table.add_row(*(Text(row[index], style=colour_of(row[index])) for index in shown))
    return table


def colour_of(status: str) -> str:
    """Return the name of the colour for a run's status text. ``''`` for any other text."""
    return UNFINISHED_COLOUR if UNFINISHED.fullmatch(status) else COLOURS.get(status, "")


def fields(pairs: Sequence[tuple[str, str]], whole: Sequence[str] = ()) -> None:
    """Print the fields of an object, one name and value per line.

    On a terminal the values are aligned, and cut at MOST_SHOWN characters.

    Args:
        pairs: The names and values.
        whole: Names of the values that are never cut.
    """
    width = max((len(name) for name, _ in pairs), default=0) + 2 if sys.stdout.isatty() else 0
    for name, value in pairs:
        if name == "status" and sys.stdout.isatty():
            value = click.style(value, fg=colour_of(value) or None)  # noqa: PLW2901
        head = (
            click.style(f"{name}:".ljust(width), bold=True) if sys.stdout.isatty() else f"{name}:"
        )
        if sys.stdout.isatty() and len(value) > MOST_SHOWN and name not in whole:
            value = f"{value[:MOST_SHOWN]}… ({len(value)} characters; --json shows all)"  # noqa: PLW2901
        click.echo(f"{head} {value}")


def follow_hint(run_id: str, url: str | None) -> str:
    """Return the ``perdure watch`` command for a run.

    Args:
        run_id: The run's id.
        url: The value of ``--url``, which the command gets too, without user and password. None
            leaves the option out.
    """
    return f"{program()} watch {run_id}" + (f" --url {shlex.quote(place_of(url))}" if url else "")
