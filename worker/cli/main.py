"""main: the console command ``holdfast``. Importing this module imports click and nothing else that takes time."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

import click

from worker.cli import exits
from worker.cli.groups import Commands
from worker.cli.shadow import shadowed


@click.command(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
    epilog="The server is taken from --url, HOLDFAST_REDIS_URL or config/worker.toml; else it is the one of `holdfast up`, "
    "else a safe one on localhost. Exit codes: 0 done, 1 internal error or damaged run, 2 usage, 3 no such run or flow, "
    "7 no server, 8 not possible in this state or not allowed to this user, 130 interrupted by you.",
)
@click.version_option(package_name="holdfast", message="%(prog)s %(version)s")
def holdfast() -> None:
    """Durable, long-running goals as jobs, on Celery and Redis."""


def main() -> NoReturn:
    """Run the command that the process was started with, and exit."""
    for stream in (sys.stdout, sys.stderr):
        # A goal may hold what this terminal's encoding cannot show; that is no reason to fail.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command; returns the exit code. Errors are told on stderr, as a sentence."""
    fault = shadowed()
    if fault is not None:
        click.echo(f"holdfast: {fault}", err=True)
        return exits.USAGE
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # last, so that flow modules are found here and nothing of ours is replaced
    try:
        with holdfast.make_context("holdfast", arguments) as context:
            holdfast.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except BrokenPipeError:
        # Whoever read our output has seen enough. Python would complain when it flushes at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return exits.DONE
    except (Exception, KeyboardInterrupt) as error:
        return exits.told(error)
    return exits.DONE
