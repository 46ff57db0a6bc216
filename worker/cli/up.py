"""up: a server, a worker and a dashboard on this machine, watched over until Ctrl-C."""

from __future__ import annotations

import os
import signal
import time
from types import FrameType
from typing import TYPE_CHECKING

import click

from worker.cli import output
from worker.cli.control_room import MISSING, installed
from worker.cli.exits import Failed
from worker.cli.options import json_option, model_options, processes_option
from worker.cli.worker import ROLES

if TYPE_CHECKING:
    from worker.cli.dashboard import Dashboard
    from worker.cli.watched import Watched
    from worker.embedded import EmbeddedServer

TRY = 'holdfast submit countdown "try it" --input rounds=20 --input seconds=1 --watch'
LOOK_SECONDS = 0.5


@click.command("up")
@click.option("--role", type=click.Choice(ROLES), default="all", show_default=True, help="Which rounds the worker plays.")
@click.option("--concurrency", metavar="N", type=click.IntRange(min=1), help="How many rounds at once, in each process.")
@processes_option
@click.option("--enable", metavar="FLOW", multiple=True, help="Play this flow too; bisect is enabled in any case.")
@model_options
@click.option("--port", metavar="N", type=click.IntRange(0, 65535), help="Of the dashboard; by default 8787, or the next one that is free.")
@click.option("--no-server", is_flag=True, help="No dashboard and no HTTP API.")
@json_option
def up_command(
    role: str,
    concurrency: int | None,
    processes: int,
    enable: tuple[str, ...],
    model: str | None,
    model_url: str | None,
    port: int | None,
    no_server: bool,
    as_json: bool,
) -> None:
    """Start a server of your own, a worker and the dashboard, and keep them alive until Ctrl-C. Other commands find them by themselves.

    A second `up` uses the server and the dashboard of the first and adds a worker.
    """
    from worker.cli.child import Child
    from worker.cli.watched import Watched
    from worker.embedded import EmbeddedServer

    leave_on_signals()
    named = os.environ.pop("HOLDFAST_REDIS_URL", None)
    server = EmbeddedServer()
    worker: Watched | None = None
    dashboard: Dashboard | None = None
    try:
        server.start()
        shown, dashboard = (None, None) if no_server else _dashboard(server, port)
        enabled = [part for name in dict.fromkeys(("bisect", *enable)) for part in ("--enable", name)]
        slots = ["--processes", str(processes), *(["--concurrency", str(concurrency)] if concurrency else [])]
        models = [part for flag, value in (("--model", model), ("--model-url", model_url)) if value for part in (flag, value)]
        # A broker named here is for another server's runs.
        child = Child(["--url", server.url, "--role", role, *slots, *enabled, *models], {"HOLDFAST_BROKER_URL": server.url})
        _tell_missing_key(model, model_url)
        worker = Watched("worker", child, ", which goes on with its runs")
        if as_json:
            told = {"url": server.url, "directory": str(server.directory), "owned": server.owned, "worker": child.pid, "dashboard": shown}
            output.document(told)
        else:
            whose = "" if server.owned else ", which another `holdfast up` started; this one adds a worker"
            click.echo(f"server: {server.url}, data in {server.directory}{whose}", err=True)
            click.echo(f"next, in another terminal:\n  {TRY}", err=True)
        if named is not None:
            click.echo("HOLDFAST_REDIS_URL names another server; other commands will use that one until you unset it", err=True)
        _watch_over(server, worker, dashboard)
    except KeyboardInterrupt:
        pass
    finally:
        _end(server, worker, dashboard)


def _tell_missing_key(model: str | None, model_url: str | None) -> None:
    """Report at the start what would keep a run from asking the model."""
    from worker.doctor.finding import Level
    from worker.doctor.models import model_key
    from worker.settings import load_settings

    finding = model_key(load_settings(model=model, model_url=model_url))
    if finding.level is Level.WARNING:
        click.echo(str(finding), err=True)


def _dashboard(server: EmbeddedServer, port: int | None) -> tuple[str | None, Dashboard | None]:
    """Where the dashboard is, and the one that this process has to look after; both None where there is none. Says which."""
    from worker.cli.dashboard import Dashboard, answering

    other = None if server.owned else answering(server.directory)
    if other is not None:
        click.echo(f"dashboard: {other}, of the other `holdfast up`", err=True)
        return other, None
    if not installed():
        click.echo(f"no dashboard: {MISSING}", err=True)
        return None, None
    dashboard = Dashboard(server, port)
    click.echo(f"dashboard: {dashboard.url}", err=True)
    return dashboard.url, dashboard


def _watch_over(server: EmbeddedServer, worker: Watched, dashboard: Dashboard | None) -> None:
    while True:
        time.sleep(LOOK_SECONDS)
        if server.ensure():
            click.echo("the server had died; it runs again, with its data", err=True)
        worker.look()
        if dashboard is not None:
            try:
                dashboard.look()
            except Failed as error:
                click.echo(f"{error}. The worker goes on without it", err=True)
                dashboard.close()
                dashboard = None


def _end(server: EmbeddedServer, worker: Watched | None, dashboard: Dashboard | None) -> None:
    """The dashboard and the worker first, then the server; whoever is impatient presses Ctrl-C again."""
    try:
        if dashboard is not None:
            dashboard.child.leave()
        if worker is not None and worker.child.exit_code is None:
            click.echo("\nthe worker finishes its rounds; Ctrl-C again does not wait for them", err=True)
            worker.child.leave()
    except KeyboardInterrupt:
        pass
    finally:
        if dashboard is not None:
            dashboard.close()
        if worker is not None:
            worker.child.kill()
        stopped = server.owned
        server.stop()
        click.echo("worker and server are down; nothing is lost" if stopped else "the worker is down", err=True)


def leave_on_signals() -> None:
    """SIGTERM and a closed terminal end this process as Ctrl-C does, in good order."""

    def leave(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)
