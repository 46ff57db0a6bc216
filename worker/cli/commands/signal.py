"""The command ``signal``: sends a signal to a run."""

from __future__ import annotations

import click

from perdure.worker.cli import output
from perdure.worker.cli.celery_command import program
from perdure.worker.cli.commands.resume import read_json
from perdure.worker.cli.commands.stop import name_for
from perdure.worker.cli.options import json_option, url_option
from perdure.worker.cli.target import client_for, known_id
from perdure.worker.domain.signal import SignalReceipt


@click.command("signal")
@click.argument("run_id", metavar="[RUN]", required=False)
@click.argument("name", metavar="NAME", required=False)
@click.option("--topic", metavar="T", help="Send it to the run that holds this topic.")
@click.option("--payload", metavar="JSON", help="What it brings, as JSON.")
@click.option("--key", metavar="KEY", help="Your own id of this signal: it is stored once.")
@click.option(
    "--keep",
    metavar="S",
    type=float,
    help="Seconds for which a topic without a run keeps it. [default: 3600]",
)
@click.option("--by", metavar="NAME", help="Who sends it. [default: your login name]")
@json_option
@url_option
def signal_command(
    run_id: str | None,
    name: str | None,
    topic: str | None,
    payload: str | None,
    key: str | None,
    keep: float | None,
    by: str | None,
    as_json: bool,
    url: str | None,
) -> None:
    """Send the signal NAME to RUN, which may wait for it now or later.

    With --topic, it goes to the run that holds the topic, or will take it.

    \b
    perdure signal 0331a86cada74a1e paid --payload '{"amount": 12}'
    perdure signal --topic order:4711 paid
    """
    if topic is not None and name is None:
        run_id, name = None, run_id
    if name is None or (run_id is None) == (topic is None):
        raise click.UsageError("Give the NAME, and either the RUN or --topic.")
    value = None if payload is None else read_json("--payload", payload)
    with client_for(url) as client:
        run_id = None if run_id is None else known_id(client, run_id)
        receipt = client.signal(
            run_id, name, value, topic=topic, key=key, by=by or name_for(client), keep=keep
        )
    if as_json:
        output.document(receipt.to_dict())
    else:
        of = "of its name" if receipt.run_id else "of those that wait"
        click.echo(
            f"signal {receipt.name} is stored, number {receipt.number} {of}; "
            f"{_what_follows(receipt, url)}"
        )


def _what_follows(receipt: SignalReceipt, url: str | None) -> str:
    """Return what the run does with the signal, and how to see it."""
    run_id = receipt.run_id
    if run_id is None:
        return "no run holds the topic now, and the run that takes it gets the signal"
    if receipt.ends_wait:
        return f"{run_id} continues; to follow it: {output.follow_hint(run_id, url)}"
    if receipt.status == "parked":
        return f"{run_id} still waits; for what: {program()} why {run_id}"
    return f"{run_id} does not wait now and may take it later"
