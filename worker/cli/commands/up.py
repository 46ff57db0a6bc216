"""The command ``up``: a state server, a worker and a dashboard on this machine, until Ctrl-C.

The dashboard listens on loopback only. `up` restarts each of these three processes that ends.
"""

from __future__ import annotations

import os
import sys
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perdure.worker.cli import output
from perdure.worker.cli.commands.server import (
    HOST,
    MISSING,
    PORT,
    address_of,
    address_of_socket,
    installed,
    listen_from,
)
from perdure.worker.cli.commands.worker import ROLES
from perdure.worker.cli.exit_codes import Failed
from perdure.worker.cli.options import json_option, model_options, processes_option
from perdure.worker.cli.processes.child import ChildProcess, SupervisedChild, leave_on_signals

if TYPE_CHECKING:
    from perdure.worker.embedded import EmbeddedServer

#: The file in the state server's directory that holds the dashboard's URL.
FILE = "dashboard.address"
#: Seconds that another `up`'s dashboard has to answer a health check. It is on this machine.
PATIENCE = 2.0


class Dashboard(SupervisedChild):
    """A supervised dashboard process. Its address stays the same when it is restarted.

    The process of `up` owns the listening socket. So requests wait while no dashboard process runs,
    and are not refused. The address is written to a file in the state server's directory.

    Args:
        server: The state server of the runs.
        port: The port to listen on. None means 8787, or the next free port.

    Raises:
        Failed: The process cannot listen on ``port``.
    """

    def __init__(self, server: EmbeddedServer, port: int | None) -> None:
        self._listening = listen_from(PORT) if port is None else address_of(HOST, port).listen()
        self.url = address_of_socket(self._listening).url
        self._file = server.directory / FILE
        descriptor = self._listening.fileno()
        child = ChildProcess(
            ["--url", server.url, "--descriptor", str(descriptor)],
            {"PERDURE_BROKER_URL": server.url},
            command="server",
            descriptors=(descriptor,),
        )
        super().__init__("dashboard", child)
        self._file.write_text(self.url)

    def close(self) -> None:
        """Kill the dashboard, close its socket, and remove the file with its address."""
        self.child.kill()
        self._listening.close()
        if read_address(self._file.parent) == self.url:
            self._file.unlink(missing_ok=True)


def read_address(directory: Path) -> str | None:
    """Return the dashboard's URL that a `perdure up` stored.

    ``directory`` is that of the state server. Return None if the file with the URL is missing or
    empty, or cannot be read.
    """
    with suppress(OSError):
        return (directory / FILE).read_text().strip() or None
    return None


def answering(directory: Path) -> str | None:
    """Return the URL of another `up`'s dashboard if it answers.

    Any HTTP status counts as an answer. Without an answer, return None. ``directory`` is that of
    the state server, which holds the file with the URL.
    """
    address = read_address(directory)
    if address is None or not address.startswith("http://"):
        return None
    try:
        health = f"{address}/api/v1/health"
        urllib.request.urlopen(health, timeout=PATIENCE).close()  # noqa: S310  http only, see above
    except urllib.error.HTTPError as error:
        error.close()  # An error status is an answer too.
    except OSError:
        return None
    return address


TRY = 'perdure submit countdown "try it" --input rounds=20 --input seconds=1 --watch'
#: Seconds between two checks that server, worker and dashboard are alive.
LOOK_SECONDS = 0.5


@click.command("up")
@click.option(
    "--role",
    type=click.Choice(ROLES),
    default="all",
    show_default=True,
    help="Which rounds the worker runs.",
)
@click.option(
    "--concurrency",
    metavar="N",
    type=click.IntRange(min=1),
    help="Concurrent rounds in each process.",
)
@processes_option
@click.option(
    "--enable",
    metavar="FLOW",
    multiple=True,
    help="Also run this flow. bisect is always enabled.",
)
@model_options
@click.option(
    "--port",
    metavar="N",
    type=click.IntRange(0, 65535),
    help="Port of the dashboard. [default: 8787 or the next free one]",
)
@click.option("--no-server", is_flag=True, help="Start no dashboard and no HTTP API.")
@click.option("--reload", is_flag=True, help="Restart the worker when a file of its flows changes.")
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
    reload: bool,
    as_json: bool,
) -> None:
    """Run a local server, a worker and the dashboard until Ctrl-C or SIGTERM.

    Other commands find this server without --url. A second `up` uses the server and the dashboard
    of the first and adds a worker. For a server apart, set XDG_STATE_HOME to another directory.
    """
    from perdure.worker.embedded import EmbeddedServer

    leave_on_signals()
    named = os.environ.pop("PERDURE_REDIS_URL", None)
    server = EmbeddedServer()
    worker: SupervisedChild | None = None
    dashboard: Dashboard | None = None
    try:
        server.start()
        shown, dashboard = (None, None) if no_server else _dashboard(server, port)
        options = _make_worker_options(role, concurrency, processes, enable, model, model_url)
        # PERDURE_BROKER_URL in this environment belongs to another server; messages go to ours.
        child = ChildProcess(["--url", server.url, *options], {"PERDURE_BROKER_URL": server.url})
        _warn_of_missing_key(model, model_url)
        worker = _supervised(child, reload)
        _print_start(server, child.pid, shown, as_json)
        if named is not None:
            click.echo(
                "PERDURE_REDIS_URL names another server; "
                "other commands use that server until you unset it",
                err=True,
            )
        while True:
            time.sleep(LOOK_SECONDS)
            if server.ensure():
                click.echo("the server died; restarted with its data", err=True)
                if dashboard is None and not no_server:
                    # The `up` that started both has ended, so both are this one's now.
                    dashboard = _dashboard_taken_over(server, port)
            worker.restart_if_ended()
            dashboard = _looked_after(dashboard)
    except KeyboardInterrupt:
        pass
    finally:
        _shut_down(server, worker, dashboard)


def _make_worker_options(
    role: str,
    concurrency: int | None,
    processes: int,
    enable: tuple[str, ...],
    model: str | None,
    model_url: str | None,
) -> list[str]:
    """Return the options for the started `perdure worker`, without ``--url``.

    The flow ``bisect`` is always enabled.
    """
    options = ["--role", role, "--processes", str(processes)]
    if concurrency:
        options += ["--concurrency", str(concurrency)]
    for name in dict.fromkeys(("bisect", *enable)):
        options += ["--enable", name]
    if model:
        options += ["--model", model]
    if model_url:
        options += ["--model-url", model_url]
    return options


def _print_start(
    server: EmbeddedServer, worker_pid: int, dashboard_url: str | None, as_json: bool
) -> None:
    """Print the state server, and the user's next command.

    With ``as_json``, print one JSON document with server, worker and dashboard instead.
    """
    if as_json:
        started = {
            "url": server.url,
            "program": server.program,
            "directory": str(server.directory),
            "owned": server.owned,
            "worker": worker_pid,
            "dashboard": dashboard_url,
        }
        output.document(started)
        return
    owner = "" if server.owned else "; another `perdure up` started it, this one adds a worker"
    click.echo(
        f"server: {server.url}, {server.program or 'busy'}, data in {server.directory}{owner}",
        err=True,
    )
    click.echo(f"next, in another terminal:\n  {TRY}", err=True)


def _supervised(child: ChildProcess, reload: bool) -> SupervisedChild:
    """Return the supervised worker of `perdure up` for its process ``child``.

    The worker is restarted when it ends. With ``reload``, it is also restarted when a source file
    of its flows changes.
    """
    note = ", which continues its runs"
    if not reload:
        return SupervisedChild("worker", child, note)
    from perdure.worker.cli.processes.reload import FlowSources, ReloadedWorker
    from perdure.worker.flow_registration import OWN
    from perdure.worker.settings import load_settings

    sources = FlowSources(load_settings().flow_modules, [OWN / "flows"], sys.path)
    return ReloadedWorker(child, note, sources)


def _warn_of_missing_key(model: str | None, model_url: str | None) -> None:
    """Print a warning if the environment lacks the model's API key.

    ``model`` and ``model_url`` are options of the command. None means the setting.
    """
    from perdure.worker.doctor.app_checks import model_key
    from perdure.worker.domain.verdict import Level
    from perdure.worker.settings import load_settings

    finding = model_key(load_settings(model=model, model_url=model_url))
    if finding.level is Level.WARNING:
        click.echo(str(finding), err=True)


def _dashboard(server: EmbeddedServer, port: int | None) -> tuple[str | None, Dashboard | None]:
    """Start a dashboard, or find the dashboard of another `perdure up`. Print its address.

    Returns:
        The dashboard's URL and the started dashboard. The second is None if the dashboard is that
        of another `perdure up`. Both are None if the extra `server` is not installed.

    Raises:
        Failed: The process cannot listen on ``port``.
    """
    other = None if server.owned else answering(server.directory)
    if other is not None:
        click.echo(f"dashboard: {other} (started by the other `perdure up`)", err=True)
        return other, None
    if not installed():
        click.echo(f"no dashboard: {MISSING}", err=True)
        return None, None
    dashboard = Dashboard(server, port)
    click.echo(f"dashboard: {dashboard.url}", err=True)
    return dashboard.url, dashboard


def _dashboard_taken_over(server: EmbeddedServer, port: int | None) -> Dashboard | None:
    """Start a dashboard because the other `up`, which had one, has ended. Print its address.

    Returns:
        The dashboard. None if another `up` still has one, or if no dashboard can be started. The
        error is printed.
    """
    try:
        return _dashboard(server, port)[1]
    except Failed as error:
        click.echo(f"{error}. The worker continues without a dashboard", err=True)
        return None


def _looked_after(dashboard: Dashboard | None) -> Dashboard | None:
    """Restart the dashboard if its process has ended. Return the dashboard.

    If it cannot run, print the error, close the dashboard, and return None. For None, return None.
    """
    if dashboard is None:
        return None
    try:
        dashboard.restart_if_ended()
    except Failed as error:
        click.echo(f"{error}. The worker continues without the dashboard", err=True)
        dashboard.close()
        return None
    return dashboard


def _shut_down(
    server: EmbeddedServer, worker: SupervisedChild | None, dashboard: Dashboard | None
) -> None:
    """Stop the dashboard and the worker, then the state server.

    The worker finishes its rounds in flight first. Another Ctrl-C ends this wait. The state server
    is stopped only if this process started it.
    """
    try:
        if dashboard is not None:
            dashboard.child.leave()
        if worker is not None and worker.child.exit_code is None:
            click.echo(
                "\nwaiting for the worker to finish its rounds; Ctrl-C again to quit now", err=True
            )
            worker.child.leave()
    except KeyboardInterrupt:
        pass
    finally:
        if dashboard is not None:
            dashboard.close()
        if worker is not None:
            worker.child.kill()
        is_server_stopped = server.owned
        server.stop()
        click.echo(
            "worker and server stopped; all runs are stored"
            if is_server_stopped
            else "worker stopped",
            err=True,
        )
