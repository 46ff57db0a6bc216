"""The command ``fork``: a new run with another run's first rounds."""

from __future__ import annotations

import click

from perdure.worker.cli import output
from perdure.worker.cli.commands.submit import amounts, inputs_of, json_pairs, pairs
from perdure.worker.cli.commands.watch import watch_until_end
from perdure.worker.cli.options import json_option, url_option
from perdure.worker.cli.target import client_for, known_id


@click.command("fork")
@click.argument("old_id", metavar="RUN")
@click.argument("step", metavar="STEP", type=click.IntRange(min=0))
@click.option("--goal", metavar="GOAL", help="Goal of the fork. [default: the run's]")
@click.option("--input", "texts", metavar="KEY=TEXT", multiple=True, help="Another input, as text.")
@click.option(
    "--input-json", "inputs", metavar="KEY=JSON", multiple=True, help="Another input, as JSON."
)
@click.option(
    "--value",
    "values",
    metavar="KEY=JSON",
    multiple=True,
    help="What the run had remembered before STEP, as JSON.",
)
@click.option("--no-values", is_flag=True, help="The run had remembered nothing before STEP.")
@click.option("--id", "run_id", metavar="ID", help="Id for the fork. [default: generated]")
@click.option(
    "--idempotency-key", metavar="K", help="Same key and same content: return the existing run."
)
@click.option("--max-rounds", metavar="N", type=int, help="End unfinished after N cycles.")
@click.option(
    "--budget", "budgets", metavar="NAME=AMOUNT", multiple=True, help="Limit of the fork itself."
)
@click.option("--model", metavar="NAME", help="Model for the fork.")
@click.option(
    "--label", "labels", metavar="K=V", multiple=True, help="Label for it. [default: the run's]"
)
@click.option("--by", metavar="NAME", help="Owner of the fork.")
@click.option("--watch", is_flag=True, help="Watch the fork until it ends.")
@json_option
@url_option
@click.pass_context
def fork_command(
    context: click.Context,
    old_id: str,
    step: int,
    goal: str | None,
    texts: tuple[str, ...],
    inputs: tuple[str, ...],
    values: tuple[str, ...],
    no_values: bool,
    run_id: str | None,
    idempotency_key: str | None,
    max_rounds: int | None,
    budgets: tuple[str, ...],
    model: str | None,
    labels: tuple[str, ...],
    by: str | None,
    watch: bool,
    as_json: bool,
    url: str | None,
) -> None:
    """Submit a new run that has the rounds of RUN before STEP, and plays STEP anew.

    What the rounds before did is not done again, and RUN does not change.

    \b
    perdure fork 4f1c 16 --input city=Bergen --watch
    """
    if no_values and values:
        raise click.UsageError("Give either --value or --no-values.")
    with client_for(url) as client:
        old_id = known_id(client, old_id)
        run = client.fork(
            old_id,
            step,
            goal=goal,
            inputs=inputs_of(texts, inputs) or None,
            values={} if no_values else json_pairs(values, "--value") or None,
            run_id=run_id,
            idempotency_key=idempotency_key,
            max_rounds=max_rounds,
            budgets=amounts(budgets, "--budget") or None,
            model=model,
            labels=pairs(labels, "--label") or None,
            submitted_by=by,
        )
        if watch:
            click.echo(f"run {run.id}", err=True)
            context.exit(watch_until_end(client, run.id, as_json, url))
    if as_json:
        output.document(run.to_dict())
        return
    click.echo(run.id)
    click.echo(
        f"forked from {old_id} before step {step}; to follow it: {output.follow_hint(run.id, url)}",
        err=True,
    )
