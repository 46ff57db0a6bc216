"""The commands ``retry`` and ``delete``, for one ended run or for many.

For many runs, they ask the user for confirmation, then act on the runs one by one and print each
result.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial

import click

from perdure.flows.core.durations import seconds_of
from perdure.worker.cli import output
from perdure.worker.cli.options import json_option, url_option
from perdure.worker.cli.target import client_for, known_id
from perdure.worker.presentation.text import count

query_option = click.option(
    "--query", metavar="LINE", help="Only runs that match this query line, as in `perdure list`."
)
dry_run_option = click.option(
    "--dry-run", is_flag=True, help="Print the ids of the matching runs, and change nothing."
)
#: Statuses of the runs that can be deleted.
ENDED = ("completed", "errored", "stopped")
yes_option = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")


def age(_ctx: click.Context, _option: click.Parameter, text: str | None) -> timedelta | None:
    """Parse an option's age: ``90s``, ``12h``, ``7d`` or ``PT12H``. Return None without the option.

    This is a callback of click.

    Raises:
        BadParameter: The text is not a duration.
    """
    if text is None:
        return None
    try:
        return timedelta(seconds=seconds_of(text))
    except (ValueError, OverflowError) as error:
        raise click.BadParameter(
            f"{text!r} is not a duration; expected 90s, 30m, 12h, 7d, 2w or PT12H"
        ) from error


def each(
    ids: Sequence[str],
    verb: str,
    done: str,
    act: Callable[[str], object],
    *,
    yes: bool,
    as_json: bool,
    dry_run: bool = False,
) -> None:
    """Retry, signal or delete several runs one by one. Print the result for each run.

    If stdin and stdout are a terminal, the user is asked first. If the user says no, nothing is
    changed.

    Args:
        ids: The ids of the runs.
        verb: The verb of the question to the user, such as "Delete".
        done: The end of the line for a run, such as "is deleted".
        act: Takes the id of a run, and retries, signals or deletes the run. If this raises
            InvalidTransition, Stale, RunNotFound, DamagedRun, MailboxFull or Conflict, the run is
            reported as unchanged. Any other error is raised.
        yes: Whether to act without asking the user.
        as_json: Whether to print one JSON document in place of lines.
        dry_run: Whether to print the ids and to change nothing.
    """
    if dry_run:
        print_matching(ids, as_json)
        return
    from perdure.worker.client.bulk import NOT_SIGNALLED
    from perdure.worker.errors import Stale

    ask = bool(ids) and not yes and sys.stdin.isatty() and sys.stdout.isatty()
    if ask and not click.confirm(f"{verb} {count(len(ids), 'run')}?"):
        click.echo("cancelled; nothing was changed")
        return
    results: list[dict[str, str | None]] = []
    for run_id in ids:
        why_not = None
        try:
            act(run_id)
        except (*NOT_SIGNALLED, Stale) as error:
            why_not = str(error)
        results.append({"run_id": run_id, "why_not": why_not})
        if not as_json:
            click.echo(
                f"{run_id} {done}" if why_not is None else f"{run_id} is unchanged: {why_not}"
            )
    if as_json:
        output.document(results)
    elif not ids:
        click.echo("no matching runs")
    elif left := sum(result["why_not"] is not None for result in results):
        click.echo(f"{count(left, 'run')} of {len(results):,} unchanged, see above", err=True)


def print_matching(ids: Sequence[str], as_json: bool) -> None:
    """Print the ids of matching runs, for ``--dry-run``."""
    if as_json:
        output.document(list(ids))
        return
    for run_id in ids:
        click.echo(run_id)
    click.echo(f"{count(len(ids), 'run')}; nothing was changed", err=True)


@click.command("retry")
@click.argument("run_id", metavar="[RUN]", required=False)
@click.option("--flow", metavar="FLOW", help="Retry all errored runs of this flow.")
@click.option("--all", "all_of_them", is_flag=True, help="Retry all errored runs.")
@query_option
@click.option("--only", is_flag=True, help="Do not retry its errored children first.")
@dry_run_option
@yes_option
@json_option
@url_option
def retry_command(
    run_id: str | None,
    flow: str | None,
    all_of_them: bool,
    query: str | None,
    only: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
    url: str | None,
) -> None:
    """Retry the errored RUN at the step that failed, or many with --flow, --query or --all.

    If the step waited for child runs, those that errored are retried first. If RUN still waits
    for children that are held back, these are retried.
    """
    has_filter = flow is not None or query is not None or all_of_them
    if (run_id is not None) == has_filter or (dry_run and not has_filter):
        raise click.UsageError("Give either the RUN to retry, or --flow, --query or --all.")
    with client_for(url) as client:
        if run_id is None:
            each(
                client.matching("errored", flow, query=query),
                "Retry",
                "is retried",
                partial(client.retry, children=not only),
                yes=yes,
                as_json=as_json,
                dry_run=dry_run,
            )
            return
        run_id = known_id(client, run_id)
        run = client.retry(run_id, children=not only)
    if as_json:
        output.document(run.to_dict())
    else:
        did = f"is retried at step {run.state.step}, {run.state.current_node}"
        if run.phase == "parked":
            did = "goes on waiting; its children that were held back are retried"
        click.echo(f"{run.id} {did}; to follow it: {output.follow_hint(run.id, url)}")


@click.command("delete")
@click.argument("run_id", metavar="[RUN]", required=False)
@click.option(
    "--status",
    type=click.Choice(ENDED),
    help="Delete all runs with this status.",
)
@query_option
@click.option("--flow", metavar="FLOW", help="With --status or --query: only runs of this flow.")
@click.option(
    "--older-than",
    metavar="AGE",
    callback=age,
    help="With --status or --query: only runs that ended longer ago: 90s, 30m, 12h, 7d, 2w.",
)
@click.option("--tree", is_flag=True, help="With RUN: the runs below it too.")
@dry_run_option
@yes_option
@json_option
@url_option
def delete_command(
    run_id: str | None,
    status: str | None,
    query: str | None,
    flow: str | None,
    older_than: timedelta | None,
    tree: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
    url: str | None,
) -> None:
    """Delete RUN with its history, or many runs with --status or --query.

    Only ended runs can be deleted: completed, errored or stopped. What they have kept for later
    runs stays (perdure notes).
    """
    if tree and run_id is None:
        raise click.UsageError("--tree needs the RUN to delete.")
    has_filter = status is not None or query is not None
    if (run_id is not None) == has_filter or (not has_filter and (flow or older_than or dry_run)):
        raise click.UsageError(
            "Give either the RUN to delete, or --status or --query (with --flow or --older-than, "
            "if needed)."
        )
    from perdure.worker.client.bulk import matching_any
    from perdure.worker.domain.run import RunStatus

    with client_for(url) as client:
        if run_id is None:
            each(
                matching_any(
                    client,
                    map(RunStatus, [status] if status else ENDED),
                    flow,
                    older_than,
                    query=query,
                ),
                "Delete",
                "is deleted",
                client.delete,
                yes=yes,
                as_json=as_json,
                dry_run=dry_run,
            )
            return
        run_id = known_id(client, run_id)
        client.delete(run_id, tree)
    if as_json:
        output.document({"deleted": run_id})
    else:
        click.echo(f"{run_id} is deleted{' with all runs below it' if tree else ''}")
