"""list: the runs."""

from __future__ import annotations

import sys
from functools import partial

import click

from worker.cli import output
from worker.cli.options import flow_option, json_option, status_option, url_option
from worker.cli.server import client_for
from worker.words.costs import amount
from worker.words.texts import duration, plain, since


@click.command("list")
@status_option
@flow_option
@click.option("--limit", metavar="N", type=click.IntRange(min=1), default=50, show_default=True, help="At most so many.")
@json_option
@url_option
def list_command(status: str | None, flow: str | None, limit: int, as_json: bool, url: str | None) -> None:
    """The runs, live ones first, newest first."""
    with client_for(url) as client:
        page = client.runs(status=status, flow=flow, limit=limit)
    for run_id in page.damaged:
        click.echo(f"run {run_id} is damaged and cannot be shown; holdfast show {run_id} says where", err=True)
    if as_json:
        output.document([run.to_dict() for run in page])
        return
    rows: list[tuple[str, ...]] = [
        (run.id, run.status.value, plain(run.flow), str(run.state.step), f"{duration(since(run.created_at))} ago", plain(run.goal))
        for run in page
    ]
    columns = ["run", "status", "flow", "step", "submitted", "goal"]
    spent = [run.details.get("spent", {}) for run in page]
    for column, name in (("tokens", "tokens"), ("cost", "money")):
        if any(each.get(name) for each in spent):
            columns.append(column)
            told = partial(amount, name) if sys.stdout.isatty() else str
            rows = [(*row, told(round(each[name], 6)) if each.get(name) else "") for row, each in zip(rows, spent, strict=True)]
    kinds = " ".join(word for word in (status, flow and f"{flow!r}") if word)
    output.table(
        columns,
        rows,
        "goal",
        f"no {kinds} runs" if kinds else "no runs yet; holdfast submit FLOW GOAL",
        spare=[name for name in ("submitted", "flow", "step", "cost", "tokens") if name in columns],
    )
    if page.cursor is not None:
        click.echo(f"there are more; --limit {limit * 4} shows them", err=True)
