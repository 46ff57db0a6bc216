"""The commands ``say`` and ``ask``: messages and questions to a live run."""

from __future__ import annotations

import json

import click

from perdure.flows.core.outcomes import ASK
from perdure.worker.cli import output
from perdure.worker.cli.celery_command import program
from perdure.worker.cli.commands.stop import name_for
from perdure.worker.cli.exit_codes import RUN_GOES_ON, Failed
from perdure.worker.cli.options import json_option, url_option
from perdure.worker.cli.target import client_for, known_id
from perdure.worker.presentation.text import value_text


@click.command("say")
@click.argument("run_id", metavar="RUN")
@click.argument("words", metavar="WORDS")
@click.option("--key", metavar="KEY", help="Your own id of these words: they are stored once.")
@click.option("--by", metavar="NAME", help="Who says it. [default: your login name]")
@json_option
@url_option
def say_command(
    run_id: str, words: str, key: str | None, by: str | None, as_json: bool, url: str | None
) -> None:
    """Send WORDS to RUN. Its controller reads them before it decides again."""
    from perdure.worker.domain.fleet import reads_messages  # it loads pydantic; ask does without

    with client_for(url) as client:
        run_id = known_id(client, run_id)
        receipt = client.say(run_id, words, key=key, by=by or name_for(client))
        flow = client.get(run_id).flow
        # The announcements of workers are read in one exchange. Loading the flows would take longer
        # than all else.
        announced = (worker["flows"] for worker in client.workers() if worker["alive"])
        info = next((flows[flow] for flows in announced if flow in flows), None)
    is_read = info is None or reads_messages(info)
    if not is_read:
        click.echo(
            f"flow {flow!r} has no controller that hears this. Only its own code can: "
            'context.take("say"), in a workflow steps.wait_for("say"). If it does not, the event '
            "`unread` names it when the run ends",
            err=True,
        )
    if as_json:
        output.document(receipt.to_dict())
        return
    heard = "; its controller hears it in its next round" if is_read else ""
    click.echo(
        f"said to {run_id}, number {receipt.number}{heard}; "
        f"to follow it: {output.follow_hint(run_id, url)}"
    )


@click.command("ask")
@click.argument("run_id", metavar="RUN")
@click.argument("question", metavar="WORDS")
@click.option("--name", metavar="NAME", default=ASK, help="The signal's name. [default: ask]")
@click.option(
    "--timeout",
    type=float,
    default=30.0,
    metavar="SECONDS",
    help="How long to wait for the reply. [default: 30]",
)
@click.option("--by", metavar="NAME", help="Who asks. [default: your login name]")
@json_option
@url_option
def ask_command(
    run_id: str,
    question: str,
    name: str,
    timeout: float,
    by: str | None,
    as_json: bool,
    url: str | None,
) -> None:
    """Ask RUN the question WORDS, wait for its reply, and print it."""
    with client_for(url) as client:
        run_id = known_id(client, run_id)
        try:
            reply = client.ask(
                run_id, question, name=name, timeout=timeout, by=by or name_for(client)
            )
        except TimeoutError as error:
            raise Failed(
                f"{run_id} has not replied within {timeout:g} s; the question stays stored. "
                f"What it waits for: {program()} why {run_id}",
                RUN_GOES_ON,
            ) from error
    if as_json:
        click.echo(json.dumps(reply, ensure_ascii=True))
    else:
        click.echo(value_text(reply))
