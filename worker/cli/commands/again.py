"""The command ``again``: a new run with the options of another."""

from __future__ import annotations

import click

from perdure.worker.cli import output
from perdure.worker.cli.commands.submit import inputs_of
from perdure.worker.cli.options import json_option, url_option
from perdure.worker.cli.target import client_for, known_id


@click.command("again")
@click.argument("run_id", metavar="RUN")
@click.argument("goal", required=False)
@click.option(
    "--flow", metavar="FLOW", help="Another flow, such as a version of it with its own name."
)
@click.option(
    "--input", "texts", metavar="KEY=TEXT", multiple=True, help="Input to change, as text."
)
@click.option(
    "--input-json", "values", metavar="KEY=JSON", multiple=True, help="Input to change, as JSON."
)
@click.option("--model", metavar="NAME", help="Another model, one of the flow's allowed_models.")
@json_option
@url_option
def again_command(
    run_id: str,
    goal: str | None,
    flow: str | None,
    texts: tuple[str, ...],
    values: tuple[str, ...],
    model: str | None,
    as_json: bool,
    url: str | None,
) -> None:
    """Submit RUN once more as a new run.

    It has the inputs, labels, limits, pauses, model and submitted files of RUN, and the code that
    the workers have now. What you pass takes the place of what RUN had. Start time, deadline,
    topic, thread and callback are not taken over.
    """
    inputs = inputs_of(texts, values)
    with client_for(url) as client:
        found = known_id(client, run_id)
        run = client.again(found, flow=flow, goal=goal, inputs=inputs, model=model)
    if as_json:
        output.document(run.to_dict())
    else:
        click.echo(run.id)
        click.echo(f"to follow it: {output.follow_hint(run.id, url)}", err=True)
