"""workers: those that are there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from worker.cli import output
from worker.cli.alive import alive_here
from worker.cli.options import json_option, url_option
from worker.cli.server import client_for
from worker.words.texts import duration


@click.command("workers")
@click.option("--alive", is_flag=True, help="A health check: exit code 0 if a worker of this machine is at work, another if none is.")
@json_option
@url_option
def workers_command(alive: bool, as_json: bool, url: str | None) -> None:
    """The workers that announced themselves lately; a silent one is probably dead."""
    if alive:
        name = alive_here(url)
        if as_json:
            output.document({"alive": name})
        else:
            click.echo(f"{name} is at work")
        return
    with client_for(url) as client:
        workers = client.workers()
    if as_json:
        output.document(workers)
        return
    rows = [
        (
            str(worker["name"]),
            _state(worker),
            str(worker["role"]),
            f"{worker['rounds']} of {worker['concurrency']} {worker['pool']}",
            ", ".join(worker["flows"]),
        )
        for worker in sorted(workers, key=lambda worker: (not worker["alive"], worker["name"]))
    ]
    columns = ("worker", "state", "role", "busy", "flows")
    output.table(columns, rows, "flows", "no workers; holdfast worker starts one", spare=("role", "busy"))
    if any(worker.get("durability") == "relaxed" for worker in workers):
        click.echo("durability is relaxed: runs may be lost when the server stops or evicts them (holdfast doctor says more)", err=True)


def _state(worker: Mapping[str, Any]) -> str:
    if not worker["alive"]:
        return f"silent for {duration(worker['silent'])}"
    return "draining" if worker.get("draining") else "alive"
