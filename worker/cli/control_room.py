"""server: the control room, the HTTP API and the dashboard, as a process."""

from __future__ import annotations

import logging
import os
import socket
import threading
from importlib.util import find_spec
from typing import TYPE_CHECKING

import click

from worker.cli import listening, output
from worker.cli.exits import USAGE, Failed
from worker.cli.on_app import program
from worker.cli.options import json_option, url_option
from worker.cli.server import state_client_for
from worker.cli.worker import leave_with_stdin

if TYPE_CHECKING:
    from worker.client import Client
    from worker.logs import LogFormat

#: What the extra brings that nothing else does.
NEEDED = ("fastapi", "uvicorn", "itsdangerous", "python_multipart")
MISSING = "the HTTP API and the dashboard need the extra `server`: pip install 'holdfast[server]'"


@click.command("server")
@click.option(
    "--host", metavar="HOST", default=listening.HOST, show_default=True, help="Where to listen; beyond loopback with tokens only."
)
@click.option("--port", metavar="N", type=click.IntRange(0, 65535), default=listening.PORT, show_default=True, help="0: any free one.")
@click.option("--root-path", metavar="PATH", default="", help="The path under which a proxy serves it, such as /holdfast.")
@click.option("--log-format", type=click.Choice(("text", "json")), help="json: one object a line.")
@click.option("--descriptor", type=int, hidden=True, help="A socket that listens already: `up` uses it.")
@click.option("--until-stdin-ends", is_flag=True, hidden=True, help="Leave when standard input is closed: `up` uses it.")
@json_option
@url_option
def server_command(
    host: str,
    port: int,
    root_path: str,
    log_format: LogFormat | None,
    descriptor: int | None,
    until_stdin_ends: bool,
    as_json: bool,
    url: str | None,
) -> None:
    """Serve the HTTP API and the dashboard until told to leave (Ctrl-C or SIGTERM).

    Any number of these can serve the same runs. Without tokens it listens on this machine alone, and whoever reaches it may do
    everything; `holdfast token create` makes the first one.
    """
    if not installed():
        raise Failed(MISSING, USAGE)
    from worker.web.app import RESENDS, create_app

    with state_client_for(url, resends=RESENDS) as client:
        log_format = log_format or client.settings.log_format
        if descriptor is not None:
            bound = socket.socket(fileno=descriptor)
            address = listening.address_of_socket(bound)
        else:
            address = listening.address_of(host, port)
            if not address.is_loopback and not has_tokens(client):
                raise Failed(
                    f"--host {host} can be reached from other machines, and there is no token yet: anybody could do everything. "
                    f"Make one with `{program()} token create NAME --scope admin`, then start this again",
                    USAGE,
                )
            bound = address.listen()
        reached = listening.address_of_socket(bound).url + root_path

        def say_ready() -> None:
            if as_json:
                output.document({"url": reached, "pid": os.getpid()})
            elif log_format == "json":
                logging.getLogger("holdfast.web").info("serving at %s", reached)
            else:
                click.echo(f"serving at {reached}", err=True)

        from worker.logs import set_up_logging
        from worker.telemetry.exporting import exporting
        from worker.web.serving import serve

        set_up_logging(log_format)
        if until_stdin_ends:
            threading.Thread(target=leave_with_stdin, name="stdin", daemon=True).start()
        with exporting():  # runs that are submitted here begin their traces here
            # A server that others reach stays closed when its last token is revoked.
            serve(create_app(client=client, open_on_loopback=address.is_loopback), bound, say_ready, root_path)


def installed() -> bool:
    """Whether the extra is there; imports nothing."""
    return all(find_spec(name) is not None for name in NEEDED)


def has_tokens(client: Client) -> bool:
    """Whether anybody can be told from anybody else."""
    from worker.client.tokens import Tokens

    return Tokens(client).any()
