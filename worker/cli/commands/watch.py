"""The commands ``watch`` and ``wait``: follow a run, or block until it ends."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

from perdure.worker.cli import output
from perdure.worker.cli.exit_codes import INTERRUPTED_BY_USER, RUN_GOES_ON, Failed
from perdure.worker.cli.options import json_option, run_argument, seconds, url_option
from perdure.worker.cli.target import known_id, reader_for
from perdure.worker.cli.views.follow import (
    BELOW_SECONDS,
    QuestionsBelow,
    View,
    end_code,
    follow,
)
from perdure.worker.cli.views.lines import JsonLinesView, LinesView, last_words, lines_below

if TYPE_CHECKING:
    from perdure.worker.client.read_api import ReadApi
    from perdure.worker.domain.run import Run


@click.command("watch")
@run_argument
@json_option
@url_option
@click.pass_context
def watch_command(context: click.Context, run_id: str, as_json: bool, url: str | None) -> None:
    """Watch RUN until it ends or asks something. With --json, one document per line.

    A question of a child run is shown with the command that answers it, and RUN is watched on.

    Exit codes: 0 finished, 4 errored or unfinished, 5 stopped, 6 interrupted. Ctrl-C does not stop
    the run.
    """
    with reader_for(url) as client:
        run_id = known_id(client, run_id)
        context.exit(watch_until_end(client, run_id, as_json, url))


def watch_until_end(client: ReadApi, run_id: str, as_json: bool, url: str | None) -> int:
    """Show a run until it ends or is interrupted. Return the command's exit code.

    Ctrl-C ends the display, but not the run. The exit code is then INTERRUPTED_BY_USER, and the
    command that follows the run again is printed.

    Args:
        client: The client that reads the run.
        run_id: The run's id.
        as_json: Whether to print JSON lines.
        url: The value of ``--url``, for the printed command.
    """
    view = view_for(as_json)
    try:
        return end_code(follow(client, run_id, view))
    except KeyboardInterrupt:
        view.close()
        click.echo(
            f"\nthe run continues; to follow it again: {output.follow_hint(run_id, url)}", err=True
        )
        return INTERRUPTED_BY_USER
    finally:
        view.close()


def view_for(as_json: bool) -> View:
    """Return a view for following a run.

    It prints JSON lines if ``as_json``. Otherwise it redraws a display on a terminal, and prints
    lines of text on a dumb terminal and elsewhere.
    """
    if as_json:
        return JsonLinesView()
    if not sys.stdout.isatty():
        return LinesView()
    from rich.console import Console

    from perdure.worker.cli.views.live import LiveView

    console = Console(highlight=False)
    return LinesView() if console.is_dumb_terminal else LiveView(console)


@click.command("wait")
@run_argument
@click.option(
    "--timeout",
    metavar="TIME",
    callback=seconds,
    help="Wait at most 90s, 10m or PT1H. The run continues, and the exit code is 9.",
)
@json_option
@url_option
@click.pass_context
def wait_command(
    context: click.Context, run_id: str, timeout: float | None, as_json: bool, url: str | None
) -> None:
    """Wait until RUN ends or asks something, then print the result.

    If a run below it asks something, the question is printed to stderr, and the wait goes on.

    Exit codes: 0 finished, 4 errored or unfinished, 5 stopped, 6 interrupted.
    """
    with reader_for(url) as client:
        run_id = known_id(client, run_id)
        try:
            run = _wait(client, run_id, timeout)
        except TimeoutError as error:
            raise Failed(str(error), RUN_GOES_ON) from error
    if as_json:
        output.document(run.to_dict())
    else:
        for line in last_words(run):
            click.echo(line)
    context.exit(end_code(run))


def _wait(client: ReadApi, run_id: str, timeout: float | None) -> Run:
    """Wait until a run ends or is interrupted. Return the run.

    Questions of runs below it are printed on stderr during the wait.

    Args:
        timeout: The maximum wait in seconds. None means no limit.

    Raises:
        TimeoutError: The run still goes on after ``timeout``.
    """
    below, begin = QuestionsBelow(client), time.monotonic()
    while True:
        passed = time.monotonic() - begin
        left = None if timeout is None else max(0.0, timeout - passed)
        try:
            return client.wait(run_id, BELOW_SECONDS if left is None else min(left, BELOW_SECONDS))
        except TimeoutError:
            run = client.get(run_id)
            for waiting in below.new(run):
                for line in lines_below(waiting):
                    click.echo(line, err=True)
            if left is not None and left <= BELOW_SECONDS:
                from perdure.worker.client.results import still

                raise still(run, timeout or 0.0, client.why(run_id)) from None
