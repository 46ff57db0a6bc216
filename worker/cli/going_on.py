"""retry, delete: what can be done with a run that has ended."""

from __future__ import annotations

from datetime import timedelta

import click

from worker.cli import output
from worker.cli.many import age, each, yes_option
from worker.cli.options import json_option, url_option
from worker.cli.server import client_for
from worker.cli.short_ids import known_id
from worker.cli.submit import follow_hint


@click.command("retry")
@click.argument("run_id", metavar="[RUN]", required=False)
@click.option("--flow", metavar="FLOW", help="All errored runs of this flow.")
@click.option("--all", "all_of_them", is_flag=True, help="All errored runs.")
@yes_option
@json_option
@url_option
def retry_command(run_id: str | None, flow: str | None, all_of_them: bool, yes: bool, as_json: bool, url: str | None) -> None:
    """Take RUN, which is errored, up again at the step that failed; or with --flow or --all, all that are errored."""
    if (run_id is None) == (flow is None and not all_of_them):
        raise click.UsageError("Name the run to retry, or say with --flow or --all which ones; one of the two.")
    with client_for(url) as client:
        if run_id is None:
            each(client.matching("errored", flow), "Retry", "is tried again", client.retry, yes=yes, as_json=as_json)
            return
        run_id = known_id(client, run_id)
        run = client.retry(run_id)
    if as_json:
        output.document(run.to_dict())
    else:
        click.echo(f"{run.id} is tried again at step {run.state.step}, {run.state.current_node}; {follow_hint(run.id, url)}")


@click.command("delete")
@click.argument("run_id", metavar="[RUN]", required=False)
@click.option("--status", type=click.Choice(("completed", "errored", "stopped")), help="All runs of this status.")
@click.option("--flow", metavar="FLOW", help="Of them, only runs of this flow.")
@click.option("--older-than", metavar="AGE", callback=age, help="Of them, only those that ended so long ago: 90s, 30m, 12h, 7d, 2w.")
@yes_option
@json_option
@url_option
def delete_command(
    run_id: str | None, status: str | None, flow: str | None, older_than: timedelta | None, yes: bool, as_json: bool, url: str | None
) -> None:
    """Remove RUN, which has ended (completed, errored or stopped), with its history; or with --status, many."""
    if (run_id is None) == (status is None) or (status is None and (flow or older_than)):
        raise click.UsageError("Name the run to delete, or say with --status (and --flow, --older-than) which ones; one of the two.")
    with client_for(url) as client:
        if run_id is None:
            each(client.matching(status, flow, older_than), "Delete", "is deleted", client.delete, yes=yes, as_json=as_json)
            return
        run_id = known_id(client, run_id)
        client.delete(run_id)
    if as_json:
        output.document({"deleted": run_id})
    else:
        click.echo(f"{run_id} is deleted")
