"""flows pause, flows unpause: hold all runs of a flow where they stand, and let them go on."""

from __future__ import annotations

import click

from worker.cli import output
from worker.cli.exits import NOT_POSSIBLE, Failed
from worker.cli.options import json_option, url_option
from worker.cli.server import client_for
from worker.cli.stop import name_for
from worker.words.texts import count


@click.command("pause")
@click.argument("name")
@click.option("--reason", metavar="TEXT", help="Why; shown with the pause.")
@click.option("--by", metavar="NAME", help="Who pauses it; your login name by default.")
@json_option
@url_option
def pause_command(name: str, reason: str | None, by: str | None, as_json: bool, url: str | None) -> None:
    """Pause the flow NAME: no round of its runs is claimed any more. Rounds in flight finish; new runs can be submitted, and wait."""
    with client_for(url) as client:
        new = client.pause_flow(name, reason, by or name_for(client))
        info = client.paused_flows().get(name)
    if as_json:
        output.document({"flow": name, "paused": True, **({} if info is None else {**info, "at": info["at"].isoformat()})})
    else:
        click.echo(f"flow {name} is {'' if new else 'already '}paused; holdfast flows unpause {name} lets it go on")


@click.command("unpause")
@click.argument("name")
@json_option
@url_option
def unpause_command(name: str, as_json: bool, url: str | None) -> None:
    """Let the paused flow NAME go on, from where each of its runs stands."""
    with client_for(url) as client:
        paused = name in client.paused_flows()
        offered = client.unpause_flow(name)
    if not paused and not offered:
        raise Failed(f"flow {name} is not paused; there is nothing to let go on", NOT_POSSIBLE)
    if as_json:
        output.document({"flow": name, "paused": False, "offered": offered})
    else:
        click.echo(f"flow {name} goes on" + (f"; {count(offered, 'run')} waited for it" if offered else ""))
