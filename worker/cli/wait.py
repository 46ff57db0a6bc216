"""wait: until a run has ended or asks something."""

from __future__ import annotations

import click

from worker.cli import output
from worker.cli.exits import RUN_GOES_ON, Failed
from worker.cli.follow import end_code
from worker.cli.lines import last_words
from worker.cli.options import json_option, run_argument, seconds, url_option
from worker.cli.server import client_for
from worker.cli.short_ids import known_id


@click.command("wait")
@run_argument
@click.option(
    "--timeout", metavar="TIME", callback=seconds, help="Wait no longer (90s, 10m, PT1H); the run goes on, and the exit code is 9."
)
@json_option
@url_option
@click.pass_context
def wait_command(context: click.Context, run_id: str, timeout: float | None, as_json: bool, url: str | None) -> None:
    """Wait until RUN has ended or asks something, then say how.

    The exit code is that of `watch`: 0 finished, 4 errored or unfinished, 5 stopped, 6 interrupted.
    """
    with client_for(url) as client:
        run_id = known_id(client, run_id)
        try:
            run = client.wait(run_id, timeout)
        except TimeoutError as error:
            raise Failed(str(error), RUN_GOES_ON) from error
    if as_json:
        output.document(run.to_dict())
    else:
        for line in last_words(run):
            click.echo(line)
    context.exit(end_code(run))
