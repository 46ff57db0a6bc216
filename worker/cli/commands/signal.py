"""The command ``signal``: send a signal to one or many runs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from perdure.worker.cli import output
from perdure.worker.cli.celery_command import program
from perdure.worker.cli.commands.resume import read_json
from perdure.worker.cli.commands.retry import each, yes_option
from perdure.worker.cli.commands.stop import name_for
from perdure.worker.cli.commands.submit import pairs
from perdure.worker.cli.options import json_option, url_option
from perdure.worker.cli.target import client_for, known_id

if TYPE_CHECKING:
    from perdure.worker.client.api import ClientApi
    from perdure.worker.domain.signal import SignalReceipt


@click.command("signal")
@click.argument("run_id", metavar="[RUN]", required=False)
@click.argument("name", metavar="NAME", required=False)
@click.option("--topic", metavar="T", help="Send it to the run that holds this topic.")
@click.option("--payload", metavar="JSON", help="What it brings, as JSON; @FILE or @- reads it.")
@click.option("--key", metavar="KEY", help="Your own id of this signal: it is stored once.")
@click.option(
    "--keep",
    metavar="S",
    type=float,
    help="Seconds for which a topic without a run keeps it. [default: 3600]",
)
@click.option("--flow", metavar="FLOW", help="Send it to all live runs of this flow.")
@click.option(
    "--label", "labels", metavar="K=V", multiple=True, help="Send it to all live runs with it."
)
@click.option("--by", metavar="NAME", help="Who sends it. [default: your login name]")
@yes_option
@json_option
@url_option
def signal_command(
    run_id: str | None,
    name: str | None,
    topic: str | None,
    payload: str | None,
    key: str | None,
    keep: float | None,
    flow: str | None,
    labels: tuple[str, ...],
    by: str | None,
    yes: bool,
    as_json: bool,
    url: str | None,
) -> None:
    """Send the signal NAME to RUN, which may wait for it now or later.

    With --topic, it goes to the run that holds the topic, or will take it. With --flow or --label,
    it goes to all live runs that match.

    \b
    perdure signal 0331a86cada74a1e paid --payload '{"amount": 12}'
    perdure signal --topic order:4711 paid
    perdure signal --flow invoice --label region=eu rates --key rates-2027-01
    """
    is_many = flow is not None or bool(labels)
    if (topic is not None or is_many) and name is None:
        run_id, name = None, run_id
    if name is None or (run_id is not None) + (topic is not None) + is_many != 1:
        raise click.UsageError("Give the NAME, and either the RUN, --topic, or --flow and --label.")
    value = None if payload is None else read_json("--payload", payload)
    with client_for(url) as client:
        by = by or name_for(client)
        if is_many:
            ids = _live(client, flow, pairs(labels, "--label"))
            send = partial(client.signal, name=name, payload=value, key=key, keep=keep, by=by)
            each(ids, f"Signal {name} to", "has the signal", send, yes=yes, as_json=as_json)
            return
        run_id = None if run_id is None else known_id(client, run_id)
        receipt = client.signal(run_id, name, value, topic=topic, key=key, by=by, keep=keep)
    if as_json:
        output.document(receipt.to_dict())
    else:
        of = "of its name" if receipt.run_id else "of those that wait"
        # A completed run takes no signal, but knows the earlier ones.
        stored = "was stored before" if receipt.status == "completed" else "is stored"
        click.echo(
            f"signal {receipt.name} {stored}, number {receipt.number} {of}; "
            f"{_what_follows(receipt, url)}"
        )


def _live(client: ClientApi, flow: str | None, labels: dict[str, str]) -> list[str]:
    """Return the ids of the live runs that have all these labels.

    ``flow`` limits them to the runs of one flow. None means all flows.
    """
    from perdure.worker.client.bulk import LIVE, matching_any

    return matching_any(client, LIVE, flow, labels=labels)


def _what_follows(receipt: SignalReceipt, url: str | None) -> str:
    """Return the effect of a sent signal on its run, as text.

    The text ends a sentence, and may contain a command for the user. ``url`` is the value of
    ``--url``, for this command.
    """
    run_id = receipt.run_id
    if run_id is None:
        return "no run holds the topic now, and the run that takes it gets the signal"
    if receipt.ends_wait:
        return f"{run_id} continues; to follow it: {output.follow_hint(run_id, url)}"
    if receipt.status == "parked":
        return f"{run_id} still waits; for what: {program()} why {run_id}"
    if receipt.status == "completed":
        return f"{run_id} has completed"
    return f"{run_id} does not wait now and may take it later"
