"""stop: one run, or all of a flow or a status."""

from __future__ import annotations

import getpass
import sys
from typing import TYPE_CHECKING

import click

from worker.cli import output
from worker.cli.exits import NOT_FOUND, NOT_POSSIBLE, Failed
from worker.cli.options import STATUSES, flow_option, json_option, url_option
from worker.cli.server import client_for
from worker.cli.short_ids import known_id
from worker.words.texts import count

if TYPE_CHECKING:
    from worker.client import Client
    from worker.receipt import StopMode, StopReceipt


@click.command("stop")
@click.argument("run_id", metavar="[RUN]", required=False)
@click.option("--now", is_flag=True, help="Do not wait for the round in flight; its result is refused.")
@click.option("--reason", metavar="TEXT", help="Why; kept with the run.")
@click.option("--by", metavar="NAME", help="Who stops it; your login name by default.")
@flow_option
@click.option("--status", type=click.Choice(STATUSES[:3]), help="Only runs of this status.")
@click.option("--yes", is_flag=True, help="Do not ask before stopping many.")
@json_option
@url_option
def stop_command(
    run_id: str | None,
    now: bool,
    reason: str | None,
    by: str | None,
    flow: str | None,
    status: str | None,
    yes: bool,
    as_json: bool,
    url: str | None,
) -> None:
    """Stop RUN, or with --flow or --status all that are live. A stopped run keeps its state; `holdfast resume` goes on with it."""
    if (run_id is None) == (flow is None and status is None):
        raise click.UsageError("Name the run to stop, or with --flow or --status which ones; one of the two.")
    mode: StopMode = "now" if now else "graceful"
    with client_for(url) as client:
        by = by or name_for(client)
        if run_id is not None:
            run_id = known_id(client, run_id)
            receipt = client.request_stop(run_id, mode, reason, by)
            if as_json:
                output.document(receipt.to_dict())
            code, sentence = told(receipt)
            if code:
                raise Failed(sentence, code)
            if not as_json:
                click.echo(sentence)
            return
        from worker.client.many import LIVE

        ids = list(dict.fromkeys(found for each in ([status] if status else LIVE) for found in client.matching(each, flow)))
        ask = bool(ids) and not yes and sys.stdin.isatty() and sys.stdout.isatty()
        if ask and not click.confirm(f"Stop {count(len(ids), 'run')}?"):
            click.echo("nothing was stopped")
            return
        from worker.errors import DamagedRun

        receipts = []
        for each in ids:
            try:
                receipts.append(client.request_stop(each, mode, reason, by))
            except DamagedRun as error:  # it must not keep the others running
                click.echo(str(error), err=True)
                continue
            if not as_json:
                click.echo(told(receipts[-1])[1])
        if as_json:
            output.document([receipt.to_dict() for receipt in receipts])
        elif not ids:
            click.echo("no such runs are live")


def told(receipt: StopReceipt) -> tuple[int, str]:
    """The exit code and the sentence of a receipt."""
    if not receipt.known:
        return NOT_FOUND, f"no run has the id {receipt.run_id!r}; holdfast list shows those there are"
    if receipt.stopped:
        doubt = f"; in doubt is the round that was in flight: {receipt.in_doubt}" if receipt.in_doubt else ""
        before = "" if receipt.running else "already "
        return 0, f"{receipt.run_id} is {before}stopped at step {receipt.step}{doubt}"
    if not receipt.running:
        return NOT_POSSIBLE, f"run {receipt.run_id} has {receipt.status} already; there is nothing to stop"
    return 0, f"{receipt.run_id} stops when the round in flight (step {receipt.step}) is over; --now does not wait for it"


def name_for(client: Client) -> str | None:
    """In whose name something is asked for, where nobody is named: the login's; a control room knows it by the token."""
    from worker.client import Client

    return login_name() if isinstance(client, Client) else None


def login_name() -> str | None:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a user without a name
        return None
