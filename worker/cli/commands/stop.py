"""The command ``stop``: stop one run, or all live runs that match."""

from __future__ import annotations

import getpass
import sys
from typing import TYPE_CHECKING

import click

from perdure.flows.core.errors import PerdureError
from perdure.worker.cli import output
from perdure.worker.cli.celery_command import program
from perdure.worker.cli.commands.retry import dry_run_option, print_matching, query_option
from perdure.worker.cli.options import STATUSES, flow_option, json_option, url_option
from perdure.worker.cli.target import client_for, known_id
from perdure.worker.errors import DamagedRun, InvalidTransition, RunNotFound
from perdure.worker.presentation.text import count

if TYPE_CHECKING:
    from perdure.worker.client.api import ClientApi
    from perdure.worker.domain.stop import StopMode, StopReceipt


@click.command("stop")
@click.argument("run_id", metavar="[RUN]", required=False)
@click.option(
    "--now", is_flag=True, help="Stop at once and discard the result of the round in flight."
)
@click.option("--only", is_flag=True, help="Let its child runs go on.")
@click.option("--reason", metavar="TEXT", help="Why; stored with the run.")
@click.option("--by", metavar="NAME", help="Who stops it. [default: your login name]")
@flow_option
@click.option("--status", type=click.Choice(STATUSES[:3]), help="Only runs with this status.")
@query_option
@dry_run_option
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@json_option
@url_option
def stop_command(
    run_id: str | None,
    now: bool,
    only: bool,
    reason: str | None,
    by: str | None,
    flow: str | None,
    status: str | None,
    query: str | None,
    dry_run: bool,
    yes: bool,
    as_json: bool,
    url: str | None,
) -> None:
    """Stop RUN with its child runs, or all live runs with --flow, --status or --query.

    The round in flight finishes first, unless --now is given. A stopped run keeps its state.
    `perdure resume` continues it.
    """
    has_filter = any(each is not None for each in (flow, status, query))
    if (run_id is not None) == has_filter or (dry_run and not has_filter):
        raise click.UsageError("Give either the RUN to stop, or --flow, --status or --query.")
    mode: StopMode = "now" if now else "graceful"
    with client_for(url) as client:
        by = by or name_for(client)
        if run_id is not None:
            run_id = known_id(client, run_id)
            receipt = client.request_stop(run_id, mode, reason, by, not only)
            if as_json:
                output.document(receipt.to_dict())
            error, sentence = describe_receipt(receipt)
            if error is not None:
                raise error(sentence)
            if not as_json:
                click.echo(sentence)
            return
        from perdure.worker.client.bulk import LIVE, matching_any
        from perdure.worker.domain.run import RunStatus
        from perdure.worker.domain.stop import StopReceipt

        statuses = [RunStatus(status)] if status else LIVE
        ids = matching_any(client, statuses, flow, query=query)
        if dry_run:
            print_matching(ids, as_json)
            return
        ask = bool(ids) and not yes and sys.stdin.isatty() and sys.stdout.isatty()
        if ask and not click.confirm(f"Stop {count(len(ids), 'run')}?"):
            click.echo("cancelled; nothing was stopped")
            return
        receipts = []
        for each in ids:
            try:
                receipts.append(client.request_stop(each, mode, reason, by, not only))
            except DamagedRun as damage:  # A damaged run must not keep the others running.
                receipts.append(StopReceipt.of_damaged(each, str(damage), mode, by, reason))
                click.echo(str(damage), err=True)
                continue
            if not as_json:
                click.echo(describe_receipt(receipts[-1])[1])
        if as_json:
            output.document([receipt.to_dict() for receipt in receipts])
        elif not ids:
            click.echo("no matching live runs")


def describe_receipt(receipt: StopReceipt) -> tuple[type[PerdureError] | None, str]:
    """Return the outcome of a stop request as a sentence.

    Returns:
        The class of an error, and the sentence. If the run does not exist or has already ended, the
        caller must raise this error with the sentence. Otherwise the class is None.
    """
    if not receipt.known:
        return RunNotFound, f"no run {receipt.run_id!r}; see `{program()} list`"
    if receipt.stopped:
        doubt = f"; the round in flight is in doubt: {receipt.in_doubt}" if receipt.in_doubt else ""
        if receipt.stops_children:
            return None, (
                f"{receipt.run_id} was stopped before, at step {receipt.step}; "
                "its children, which went on, are stopped now"
            )
        already = "" if receipt.running else "already "
        return None, f"{receipt.run_id} is {already}stopped at step {receipt.step}{doubt}"
    if not receipt.running:
        return (
            InvalidTransition,
            f"run {receipt.run_id} has already {receipt.status}; there is nothing to stop",
        )
    sentence = f"{receipt.run_id} stops after the round in flight (step {receipt.step})"
    return None, f"{sentence}; to stop at once: --now"


def name_for(client: ClientApi) -> str | None:
    """Return the default value of ``--by``: the user's login name.

    Returns:
        The name. None for a client over HTTP, because the HTTP server uses the name of the token.
        None also if the user has no login name.
    """
    from perdure.worker.client import Client

    return login_name() if isinstance(client, Client) else None


def login_name() -> str | None:
    """Return the user's login name. None if the user has none."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return None
