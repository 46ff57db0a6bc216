"""The command ``list``: runs, newest first, or groups of errored runs."""

from __future__ import annotations

import shlex
import sys
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

import click

from perdure.worker.cli import output
from perdure.worker.cli.celery_command import program
from perdure.worker.cli.options import flow_option, json_option, status_option, url_option
from perdure.worker.cli.target import known_id, reader_for
from perdure.worker.presentation.text import duration, moment, plain, since
from perdure.worker.presentation.usage import amount

if TYPE_CHECKING:
    from perdure.worker.domain.run import Page


@click.command("list")
@click.argument("query", nargs=-1)
@status_option
@flow_option
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(min=1),
    default=50,
    show_default=True,
    help="Show at most N runs.",
)
@click.option("--children", is_flag=True, help="Show child runs too.")
@click.option("--parent", metavar="RUN", help="Only the children of RUN, in order of their start.")
@click.option("--thread", "thread_id", metavar="THREAD", help="Only runs of this thread.")
@click.option("--label", "labels", metavar="K=V", multiple=True, help="Only runs with this label.")
@click.option(
    "--group",
    is_flag=True,
    help="List errored runs in groups: by flow, node and kind of error, with their number.",
)
@json_option
@url_option
def list_command(
    query: tuple[str, ...],
    status: str | None,
    flow: str | None,
    limit: int,
    children: bool,
    parent: str | None,
    thread_id: str | None,
    labels: tuple[str, ...],
    group: bool,
    as_json: bool,
    url: str | None,
) -> None:
    """List the runs, newest first: by time of end if they have ended, else of submission.

    QUERY chooses runs by words of the goal and by key:value, for example:

    \b
      perdure list status:errored flow:react label:team=a "submitted:<1d"
      perdure list by:ann "cost:>0.5" sort:cost "words of the goal"

    The keys: status, flow, label, input, by, goal, error, node, kind, id, thread, submitted, ended,
    duration, cost, sort. A "-" in front excludes runs; write "--" before it. For the runs below a
    run, use perdure tree RUN.
    """
    line = _line_of(query)
    if group:
        if parent is not None or status not in (None, "errored"):
            raise click.UsageError("--group lists errored runs. Leave out --parent and --status.")
        line = _with_terms(line, labels, thread_id, children)
        list_groups(line, flow, limit, as_json, url)
        return
    with reader_for(url) as client:
        parent = None if parent is None else known_id(client, parent)
        page = client.runs(
            status=status,
            flow=flow,
            limit=limit,
            children=children,
            parent=parent,
            thread_id=thread_id,
            labels=_labels_of(labels),
            query=line or None,
        )
        if not page.runs and thread_id is not None:
            from perdure.worker.operations import validation

            validation.thread(thread_id)  # No message can have been sent to another name.
        has_counts = sys.stdout.isatty() and not as_json and parent is None
        counts = client.status_counts() if has_counts else {}
    for run_id in page.damaged:
        click.echo(
            f"run {run_id} is damaged and cannot be shown; see `{program()} show {run_id}`",
            err=True,
        )
    if as_json:
        output.document([run.to_dict() for run in page])
        return
    columns, rows = _make_table(page)
    filters = (status, *(f"{name!r}" for name in (flow, thread_id, *labels) if name), line)
    output.table(
        columns,
        rows,
        "goal",
        _explain_empty_list(" ".join(text for text in filters if text), parent, children),
        spare=[
            name
            for name in ("submitted", "flow", "ended", "step", "cost", "tokens")
            if name in columns
        ],
    )
    if any(counts.values()):
        click.echo(
            f"total: {', '.join(f'{number} {name}' for name, number in counts.items() if number)}"
        )
    if page.cursor is not None:
        click.echo(f"there are more; see them with --limit {limit * 4}", err=True)


def _make_table(page: Page) -> tuple[list[str], list[tuple[str, ...]]]:
    """Return column heads and rows of the table of runs.

    The columns ``ended``, ``tokens`` and ``cost`` are left out if no run has such a value.
    ``ended`` is also left out if standard output is not a terminal.
    """
    columns = ["run", "status", "flow", "step", "submitted", "goal"]
    rows: list[tuple[str, ...]] = [
        (
            run.id,
            run.status_text,
            plain(run.flow),
            str(run.state.step),
            _ago(run.created_at),
            plain(run.title),
        )
        for run in page
    ]
    if any(run.details.get("ended_at") for run in page) and sys.stdout.isatty():
        columns.insert(-1, "ended")
        rows = [
            (*row[:-1], _ago(run.details.get("ended_at")), row[-1])
            for row, run in zip(rows, page, strict=True)
        ]
    spent = [run.details.get("spent", {}) for run in page]
    for column, name in (("tokens", "tokens"), ("cost", "money")):
        if any(each.get(name) for each in spent):
            columns.append(column)
            show_amount = partial(amount, name) if sys.stdout.isatty() else str
            rows = [
                (*row, show_amount(round(each[name], 6)) if each.get(name) else "")
                for row, each in zip(rows, spent, strict=True)
            ]
    return columns, rows


def _explain_empty_list(filters: str, parent: str | None, children: bool) -> str:
    """Return a sentence that says why the list of runs is empty, and what to do.

    Args:
        filters: The filters of the command as text. ``''`` without filters.
        parent: The run whose children were listed, or None.
        children: Whether the list includes child runs.
    """
    if parent is not None:
        return f"run {parent} has no {filters and f'{filters} '}children"
    if not filters:
        return "no runs yet; submit one: perdure submit FLOW GOAL"
    return f"no {filters} runs{'' if children else '; child runs are shown with --children'}"


def _line_of(texts: tuple[str, ...]) -> str:
    """Return the command's arguments as one query line.

    An argument that has spaces but no colon and no quote is put in quotes, because the shell
    removed those that the user typed.
    """
    from perdure.worker.domain.query_line import quoted

    return " ".join(
        quoted(text) if " " in text and ":" not in text and '"' not in text else text
        for text in texts
    )


def _with_terms(line: str, labels: tuple[str, ...], thread_id: str | None, children: bool) -> str:
    """Return the query line with terms for these options. An option that is not set adds none."""
    from perdure.worker.domain.query_line import QueryTerm

    named = [
        *(("label", f"{name}={value}") for name, value in (_labels_of(labels) or {}).items()),
        ("thread", thread_id or ""),
        ("children", "yes" if children else ""),
    ]
    return " ".join([line, *(str(QueryTerm(key, text)) for key, text in named if text)]).strip()


def list_groups(line: str, flow: str | None, limit: int, as_json: bool, url: str | None) -> None:
    """Print the errored runs that match a query line, in groups.

    On a terminal, print also the command that retries the first group.

    Args:
        line: The query line. Empty for all errored runs.
        flow: Only runs of this flow. None: of all flows.
        limit: The maximum number of groups to print.
        as_json: Whether to print one JSON document.
        url: The value of ``--url``.
    """
    with reader_for(url) as client:
        found = client.error_groups(flow, query=line or None)
    shown = found.groups[:limit]
    if found.looked_back is not None:
        click.echo(
            f"only the newest {found.looked_at:,} errored runs were looked at, back to "
            f"{moment(found.looked_back)}. To look at older ones: {program()} list --group "
            f"'ended:<{found.looked_back.isoformat(timespec='milliseconds')}'",
            err=True,
        )
    if as_json:
        output.document({**found.to_dict(), "groups": [group.to_dict() for group in shown]})
        return
    rows = [
        (
            str(group.count),
            plain(group.flow),
            plain(group.node),
            group.newest,
            _ago(group.newest_at),
            plain(group.kind),
        )
        for group in shown
    ]
    columns = ("runs", "flow", "node", "newest", "errored", "kind")
    output.table(columns, rows, "kind", "no errored runs", spare=("errored", "flow"))
    if shown and shown[0].query and shown[0].remedy == "retry" and sys.stdout.isatty():
        click.echo(
            f"to retry the first group: {program()} retry --query {shlex.quote(shown[0].query)}"
        )
    if len(found.groups) > limit:
        click.echo(f"there are more groups; see them with --limit {limit * 4}", err=True)


def _labels_of(texts: tuple[str, ...]) -> dict[str, str] | None:
    if not texts:
        return None
    from perdure.worker.cli.commands.submit import pairs  # its imports take time

    return pairs(texts, "--label")


def _ago(moment: datetime | str | None) -> str:
    return "" if moment is None else f"{duration(since(moment))} ago"
