"""The command ``add``: add amounts to the limits of a run's budgets."""

from __future__ import annotations

import click

from perdure.worker.cli import output
from perdure.worker.cli.celery_command import program
from perdure.worker.cli.commands.stop import name_for
from perdure.worker.cli.commands.submit import amounts
from perdure.worker.cli.options import json_option, run_argument, url_option
from perdure.worker.cli.target import client_for, known_id
from perdure.worker.presentation.usage import budgets


@click.command("add")
@run_argument
@click.argument("amounts_", metavar="NAME=AMOUNT...", nargs=-1, required=True)
@click.option(
    "--by",
    metavar="NAME",
    help="Who adds. [default: your login name; over HTTP, the token's name]",
)
@json_option
@url_option
def add_command(
    run_id: str, amounts_: tuple[str, ...], by: str | None, as_json: bool, url: str | None
) -> None:
    """Add to the limits of RUN's budgets: tokens=5000 money=2.

    What waits for that goes on: RUN itself, and the runs below it.
    """
    more = amounts(amounts_, "NAME=AMOUNT")
    with client_for(url) as client:
        run_id = known_id(client, run_id)
        run = client.add(run_id, by=by or name_for(client), **more)
    if as_json:
        output.document(run.to_dict())
        return
    click.echo(f"{run.id} is {run.status_text}; its budgets: {', '.join(budgets(run))}")
    if run.status.value == "errored":
        click.echo(f"to go on: {program()} retry {run.id}", err=True)
