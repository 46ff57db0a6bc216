"""watch: a run, live."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from worker.cli.exits import INTERRUPTED_BY_USER
from worker.cli.follow import View, end_code, follow
from worker.cli.options import json_option, run_argument, url_option
from worker.cli.server import client_for
from worker.cli.short_ids import known_id

if TYPE_CHECKING:
    from worker.client import Client


@click.command("watch")
@run_argument
@json_option
@url_option
@click.pass_context
def watch_command(context: click.Context, run_id: str, as_json: bool, url: str | None) -> None:
    """Watch RUN until it has ended or asks something. With --json, one document a line.

    The exit code tells how it ended: 0 finished, 4 errored or unfinished, 5 stopped, 6 interrupted. Ctrl-C leaves the run going.
    """
    with client_for(url) as client:
        run_id = known_id(client, run_id)
        context.exit(watch_until_end(client, run_id, as_json, url))


def watch_until_end(client: Client, run_id: str, as_json: bool, url: str | None) -> int:
    """Show the run until it has ended or is interrupted; returns the exit code that tells how."""
    from worker.cli.submit import follow_hint

    view = view_for(as_json)
    try:
        return end_code(follow(client, run_id, view))
    except KeyboardInterrupt:
        view.close()
        click.echo(f"\nthe run goes on; see it again: {follow_hint(run_id, url)}", err=True)
        return INTERRUPTED_BY_USER
    finally:
        view.close()


def view_for(as_json: bool) -> View:
    """Live on a terminal, lines elsewhere."""
    from worker.cli.lines import JsonLines, Lines

    if as_json:
        return JsonLines()
    if not sys.stdout.isatty():
        return Lines()
    from rich.console import Console

    from worker.cli.live import LiveView

    console = Console(highlight=False)
    return Lines() if console.is_dumb_terminal else LiveView(console)
