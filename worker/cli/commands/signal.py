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
@click.argument("run_id", metavar="RUN")
@click.argument("name", metavar="NAME")
@click.option("--payload", metavar="JSON", help="What it brings, as JSON.")
@click.option("--key", metavar="KEY", help="Your own id of this signal: it is stored once.")
@click.option("--by", metavar="NAME", help="Who sends it. [default: your login name]")
@json_option
@url_option
def signal_command(
    run_id: str,
    name: str,
    payload: str | None,
    key: str | None,
    by: str | None,
    as_json: bool,
    url: str | None,
) -> None:
    """Send the signal NAME to RUN, which may wait for it now or later."""
    value = None if payload is None else read_json("--payload", payload)
    with client_for(url) as client:
        run_id = known_id(client, run_id)
        receipt = client.signal(run_id, name, value, key=key, by=by or name_for(client))
    if as_json:
        output.document(receipt.to_dict())
    else:
        click.echo(
            f"signal {receipt.name} is stored, number {receipt.number} of its name; "
            f"{_what_follows(receipt, url)}"
        )


def _what_follows(receipt: SignalReceipt, url: str | None) -> str:
    """Return what the run does with the signal, and how to see it."""
    run_id = receipt.run_id
    if receipt.ends_wait:
        return f"{run_id} continues; to follow it: {output.follow_hint(run_id, url)}"
    if receipt.status == "parked":
        return f"{run_id} still waits; for what: {program()} why {run_id}"
    return f"{run_id} does not wait now and may take it later"
