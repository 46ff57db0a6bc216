"""up: a server and a worker on this machine, watched over until Ctrl-C."""

from __future__ import annotations

import os
import signal
import time
from types import FrameType
from typing import TYPE_CHECKING

import click

from worker.cli import output
from worker.cli.exits import Failed
from worker.cli.options import json_option, model_options, processes_option
from worker.cli.worker import ROLES

if TYPE_CHECKING:
    from worker.cli.child import Child
    from worker.embedded import EmbeddedServer

TRY = 'holdfast submit countdown "try it" --input rounds=20 --input seconds=1 --watch'
LOOK_SECONDS = 0.5
#: A worker that dies this often, each time within SOON seconds, will not live the next time either.
DEATHS, SOON = 4, 10.0


@click.command("up")
@click.option("--role", type=click.Choice(ROLES), default="all", show_default=True, help="Which rounds the worker plays.")
@click.option("--concurrency", metavar="N", type=click.IntRange(min=1), help="How many rounds at once, in each process.")
@processes_option
@click.option("--enable", metavar="FLOW", multiple=True, help="Play this flow too; bisect is enabled in any case.")
@model_options
@json_option
def up_command(
    role: str,
    concurrency: int | None,
    processes: int,
    enable: tuple[str, ...],
    model: str | None,
    model_url: str | None,
    as_json: bool,
) -> None:
    """Start a server of your own and a worker, and keep both alive until Ctrl-C. Other commands find them by themselves.

    A second `up` uses the server of the first and adds a worker.
    """
    from worker.cli.child import Child
    from worker.embedded import EmbeddedServer

    leave_on_signals()
    named = os.environ.pop("HOLDFAST_REDIS_URL", None)
    server = EmbeddedServer()
    child: Child | None = None
    try:
        server.start()
        enabled = [part for name in dict.fromkeys(("bisect", *enable)) for part in ("--enable", name)]
        slots = ["--processes", str(processes), *(["--concurrency", str(concurrency)] if concurrency else [])]
        models = [part for flag, value in (("--model", model), ("--model-url", model_url)) if value for part in (flag, value)]
        # A broker named here is for another server's runs.
        child = Child(["--url", server.url, "--role", role, *slots, *enabled, *models], {"HOLDFAST_BROKER_URL": server.url})
        if as_json:
            output.document({"url": server.url, "directory": str(server.directory), "owned": server.owned, "worker": child.pid})
        else:
            whose = "" if server.owned else ", which another `holdfast up` started; this one adds a worker"
            click.echo(f"server: {server.url}, data in {server.directory}{whose}", err=True)
            click.echo(f"next, in another terminal:\n  {TRY}", err=True)
        if named is not None:
            click.echo("HOLDFAST_REDIS_URL names another server; other commands will use that one until you unset it", err=True)
        _watch_over(server, child)
    except KeyboardInterrupt:
        pass
    finally:
        _end(server, child)


def _watch_over(server: EmbeddedServer, child: Child) -> None:
    started, soon = time.monotonic(), 0
    while True:
        time.sleep(LOOK_SECONDS)
        if server.ensure():
            click.echo("the server had died; it runs again, with its data", err=True)
        code = child.exit_code
        if code is None:
            continue
        soon = soon + 1 if time.monotonic() - started < SOON else 1
        if soon == DEATHS or code == 2:  # 2: it does not understand how it was called, and will not the next time
            raise Failed(f"the worker ended {soon} times in a row right after its start, at last with exit code {code}; see above why")
        click.echo(f"the worker ended ({_ending(code)}); starting another, which goes on with its runs", err=True)
        child.restart()
        started = time.monotonic()


def _ending(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"signal {-code}"


def _end(server: EmbeddedServer, child: Child | None) -> None:
    """The worker first, then the server; whoever is impatient presses Ctrl-C again."""
    try:
        if child is not None and child.exit_code is None:
            click.echo("\nthe worker finishes its rounds; Ctrl-C again does not wait for them", err=True)
            child.leave()
    except KeyboardInterrupt:
        pass
    finally:
        if child is not None:
            child.kill()
        stopped = server.owned
        server.stop()
        click.echo("worker and server are down; nothing is lost" if stopped else "the worker is down", err=True)


def leave_on_signals() -> None:
    """SIGTERM and a closed terminal end this process as Ctrl-C does, in good order."""

    def leave(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)
