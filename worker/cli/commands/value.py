"""The command ``value``: the named values of a run as of its last commit."""

from __future__ import annotations

import json

import click

from perdure.worker.cli import output
from perdure.worker.cli.options import json_option, url_option
from perdure.worker.cli.target import known_id, reader_for
from perdure.worker.presentation.text import value_text


@click.command("value")
@click.argument("run_id", metavar="RUN")
@click.argument("name", metavar="[NAME]", required=False)
@click.option(
    "--wait",
    type=float,
    default=0.0,
    metavar="SECONDS",
    help="How long to wait until there is a value NAME.",
)
@json_option
@url_option
def value_command(
    run_id: str, name: str | None, wait: float, as_json: bool, url: str | None
) -> None:
    """Print the value NAME of RUN, or all its values. They are those of its last commit."""
    with reader_for(url) as client:
        run_id = known_id(client, run_id)
        values = client.values(run_id) if name is None else {}
        value = None if name is None else client.value(run_id, name, wait)
    if name is not None:
        click.echo(json.dumps(value) if as_json else value_text(value))
    elif as_json:
        output.document(values)
    else:
        for each, found in values.items():
            click.echo(f"{each}  {value_text(found)}")
