"""The command ``workers``, with the health check ``workers --alive``.

Orchestrators call the health check every few seconds, so it imports neither Celery nor flows.
"""

from __future__ import annotations

import os
import socket
import time
from typing import TYPE_CHECKING

import click

from perdure.worker.cli import output
from perdure.worker.cli.exit_codes import Failed
from perdure.worker.cli.options import json_option, url_option
from perdure.worker.cli.target import client_for, settings_for
from perdure.worker.presentation.text import duration, memory_text

if TYPE_CHECKING:
    from perdure.worker.domain.fleet import WorkerInfo, WorkerStatus


#: Seconds without a heartbeat after which ``workers`` shows this for a worker that counts as alive.
#: Heartbeats come every second by default.
LATE_SECONDS = 1.5


def alive_here(url: str | None) -> str:
    """Return the name of a live worker on this machine.

    A worker is alive if its process runs and has sent a recent heartbeat. Heartbeats show that the
    worker's sweeper runs and reaches the state server. They do not show whether its rounds make
    progress. For this, see ``perdure why``.

    Raises:
        Failed: No worker on this machine is alive. The message lists the silent workers.
        NoServer: No state server was found.
        StoreUnavailable: The state server does not answer.
    """
    from perdure.worker.domain.fleet import WorkerInfo
    from perdure.worker.store import Store

    settings = settings_for(url)
    assert settings.redis_url is not None
    store = Store(settings.redis_url, settings.prefix)
    try:
        now, workers = store.time(), [WorkerInfo(*each) for each in store.fleet.workers()]
    finally:
        store.close()
    host = socket.gethostname()
    here = [worker for worker in workers if worker.info.get("host") == host]
    for worker in here:
        if worker.is_alive(now, settings.heartbeat_seconds) and _is_running(worker):
            return worker.name
    states = [
        f"{worker.name}: "
        + (
            f"no heartbeat for {duration(worker.silence(now))}"
            if _is_running(worker)
            else "its process is gone"
        )
        for worker in here
    ]
    raise Failed(f"no live worker on {host} ({'; '.join(states) or 'none has announced itself'})")


def _is_running(worker: WorkerInfo) -> bool:
    try:
        os.kill(int(worker.info["pid"]), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


@click.command("workers")
@click.option(
    "--alive",
    is_flag=True,
    help="Health check: exit code 0 if a worker on this machine is alive, else nonzero.",
)
@json_option
@url_option
def workers_command(alive: bool, as_json: bool, url: str | None) -> None:
    """List the workers with recent heartbeats. A silent one is probably dead."""
    if alive:
        name = alive_here(url)
        if as_json:
            output.document({"alive": name})
        else:
            click.echo(f"{name} is alive")
        return
    from perdure.worker.domain.fleet import names_text

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
            names_text(worker["flows"]),
            str(worker.get("version") or "unknown"),
            memory_text(worker.get("memory")) or "unknown",
            _uptime(worker),
        )
        for worker in sorted(workers, key=lambda worker: (not worker["alive"], worker["name"]))
    ]
    # The newer columns are last: scripts read the lines by position.
    columns = ("worker", "state", "role", "busy", "flows", "version", "memory", "up for")
    output.table(
        columns,
        rows,
        "flows",
        "no workers; start one: perdure worker",
        spare=("version", "memory", "up for", "role", "busy"),
    )
    if any(worker.get("durability") == "relaxed" for worker in workers):
        click.echo(
            "durability is relaxed: runs may be lost when the server stops or evicts them; "
            "see `perdure doctor`",
            err=True,
        )


def _uptime(worker: WorkerStatus) -> str:
    started = worker.get("started")
    return "unknown" if started is None else duration(max(0.0, time.time() - started))


def _state(worker: WorkerStatus) -> str:
    if not worker["alive"]:
        return f"silent for {duration(worker['silent'])}"
    state = "draining" if worker.get("draining") else "alive"
    if worker["silent"] < LATE_SECONDS:
        return state
    return f"{state}, last seen {duration(worker['silent'])} ago"
