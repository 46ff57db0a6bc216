"""The command ``tree``: a run and the runs below it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from perdure.worker.cli import output
from perdure.worker.cli.celery_command import program
from perdure.worker.cli.options import json_option, run_argument, url_option
from perdure.worker.cli.target import known_id, reader_for
from perdure.worker.domain.run import Run, RunStatus
from perdure.worker.operations.validation import MOST, MOST_GENERATIONS
from perdure.worker.presentation.text import parked_text, plain
from perdure.worker.presentation.usage import used_in_tree

if TYPE_CHECKING:
    from perdure.worker.domain.run_tree import RunTree

COLUMNS = ("run", "status", "flow", "step", "used", "waits", "goal")


@click.command("tree")
@run_argument
@click.option(
    "--depth",
    type=click.IntRange(1, MOST_GENERATIONS),
    default=3,
    show_default=True,
    help="Generations to list.",
)
@click.option(
    "--width",
    type=click.IntRange(1, MOST),
    default=10,
    show_default=True,
    help="Children of a run to list of each flow and status. The others are counted.",
)
@json_option
@url_option
def tree_command(run_id: str, depth: int, width: int, as_json: bool, url: str | None) -> None:
    """List RUN with the runs below it, and what each waits for.

    Of many children that are alike, some are listed and the others counted.
    """
    with reader_for(url) as client:
        tree = client.tree(known_id(client, run_id), depth, width)
    if as_json:
        output.document(tree.to_dict())
        return
    rows = list(_rows(tree, 0))
    shown = list(range(len(COLUMNS)))
    if sys.stdout.isatty():
        shown = [i for i in shown if COLUMNS[i] not in ("used", "waits") or any(r[i] for r in rows)]
    output.table(
        [COLUMNS[i] for i in shown],
        [[row[i] for i in shown] for row in rows],
        "goal",
        "no runs",
        spare=[name for name in ("step", "flow", "used") if COLUMNS.index(name) in shown],
    )
    deepest = [run for level, run in tree.walk() if level == depth]
    if any(run.details.get("spent_below", {}).get("runs") for run in deepest):
        click.echo(f"there are more generations: --depth {depth + 1}", err=True)
    if len(rows) == 1 and tree.details.get("parent"):
        click.echo(f"its parent: {program()} tree {tree.details['parent']}", err=True)


def _rows(run: RunTree, level: int) -> Iterator[tuple[str, ...]]:
    yield (
        f"{'  ' * level}{run.id}",
        run.status_text,
        plain(run.flow),
        str(run.state.step),
        used_in_tree(run),
        waits_text(run),
        plain(run.title),
    )
    for child in run.children:
        yield from _rows(child, level + 1)
    indent = "  " * (level + 1)
    for each in run.more:
        yield f"{indent}and {each.count:,} more", each.status, plain(each.flow), "", "", "", ""
    if run.not_read:
        yield f"{indent}and {run.not_read:,} not read", "", "", "", "", "", ""


def waits_text(run: Run) -> str:
    """Return the reason for a run's wait as a short text. ``''`` if the run does not wait."""
    if run.status is RunStatus.INTERRUPTED:
        return "for a person"
    if run.status.ended:
        return ""
    if budget := run.details.get("waits_for_budget"):
        return f"for more {plain(budget['budget'])}"
    if run.phase == "parked":
        return plain(parked_text(run.details))
    return f"for {plain(text)}" if (text := run.details.get("waiting_for")) else ""
