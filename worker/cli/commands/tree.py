"""The command ``tree``: lists the runs that a run has started, and those that they have started."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from perdure.worker.cli import output
from perdure.worker.cli.celery_command import program
from perdure.worker.cli.options import json_option, run_argument, url_option
from perdure.worker.cli.target import client_for, known_id
from perdure.worker.client.api import ClientApi
from perdure.worker.domain.run import Run
from perdure.worker.presentation.text import plain
from perdure.worker.presentation.usage import used_in_tree

#: Children of one run that are read at once.
PAGE = 200


@click.command("tree")
@run_argument
@click.option(
    "--depth", type=click.IntRange(1), default=3, show_default=True, help="Generations to list."
)
@json_option
@url_option
def tree_command(run_id: str, depth: int, as_json: bool, url: str | None) -> None:
    """List the runs that RUN has started, and those that they have started."""
    with client_for(url) as client:
        run = client.get(known_id(client, run_id))
        if as_json:
            output.document(_document(client, run, depth))
            return
        rows = [
            (
                f"{'  ' * level}{each.id}",
                each.status_text,
                plain(each.flow),
                used_in_tree(each),
                plain(each.title),
            )
            for level, each in _generations(client, run, depth)
        ]
    columns = ("run", "status", "flow", "used", "goal")
    output.table(columns, rows, "goal", "no runs", spare=("flow", "used"))
    if len(rows) == 1 and run.details.get("parent"):
        click.echo(f"its parent: {program()} tree {run.details['parent']}", err=True)


def _children(client: ClientApi, run: Run) -> Iterator[Run]:
    cursor = None
    while True:
        page = client.children(run.id, PAGE, cursor)
        yield from page
        cursor = page.cursor
        if cursor is None:
            return


def _generations(
    client: ClientApi, run: Run, depth: int, level: int = 0
) -> Iterator[tuple[int, Run]]:
    """Yield a run and its descendants, each after its parent, with its generation."""
    yield level, run
    if level < depth:
        for child in _children(client, run):
            yield from _generations(client, child, depth, level + 1)


def _document(client: ClientApi, run: Run, depth: int) -> dict[str, Any]:
    children = _children(client, run) if depth else ()
    told = [_document(client, child, depth - 1) for child in children]
    return {**run.to_dict(), "children": told}
