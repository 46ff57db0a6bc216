"""The command ``server``: the HTTP API and the dashboard."""

from __future__ import annotations

import errno
import ipaddress
import logging
import os
import socket
import threading
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

import click

from perdure.worker.cli import output
from perdure.worker.cli.celery_command import program
from perdure.worker.cli.exit_codes import USAGE, Failed
from perdure.worker.cli.options import json_option, url_option
from perdure.worker.cli.processes.supervised import leave_with_stdin
from perdure.worker.cli.target import state_client_for

if TYPE_CHECKING:
    from perdure.worker.client import Client
    from perdure.worker.logs import LogFormat

#: The default address: only this machine can connect.
HOST = "127.0.0.1"
#: The default port. `up` takes the next free one if it is in use.
PORT = 8787


@dataclass(frozen=True)
class ListenAddress:
    """An IP address and a port to listen on.

    Attributes:
        family: The socket's address family.
        host: An IP address.
        port: A port number. 0 means any free port.
    """

    family: socket.AddressFamily
    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether only programs on this machine can connect (a loopback address)."""
        return ipaddress.ip_address(self.host.partition("%")[0]).is_loopback

    @property
    def url(self) -> str:
        """The URL of the HTTP server for browsers on this machine.

        If the server listens on all addresses, the URL has the loopback address.
        """
        ip = ipaddress.ip_address(self.host.partition("%")[0])
        name = ("::1" if ip.version == 6 else HOST) if ip.is_unspecified else self.host
        return f"http://[{name}]:{self.port}" if ":" in name else f"http://{name}:{self.port}"

    def listen(self) -> socket.socket:
        """Return a new socket that listens on this address.

        Raises:
            Failed: The port is in use or not allowed, or this machine does not have the address.
        """
        try:
            everything = (
                self.family == socket.AF_INET6
                and ipaddress.ip_address(self.host.partition("%")[0]).is_unspecified
            )
            return socket.create_server(
                (self.host, self.port), family=self.family, dualstack_ipv6=everything
            )
        except OSError as error:
            why = {
                errno.EADDRINUSE: "the port is in use; choose another one with --port",
                errno.EACCES: "permission denied; choose a port from 1024 on with --port",
                errno.EADDRNOTAVAIL: "this machine does not have that address; see --host",
            }.get(error.errno or 0, os.strerror(error.errno or 0))
            raise Failed(f"cannot listen on {self.host} port {self.port}: {why}") from error


def address_of(host: str, port: int) -> ListenAddress:
    """Resolve a host name. Return the address to listen on: the first that the name has.

    Raises:
        Failed: The host name cannot be resolved.
    """
    try:
        family, _, _, _, sockaddr = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as error:
        raise Failed(
            f"--host {host}: {error.strerror or error}; "
            f"expected an address of this machine, such as {HOST} or 0.0.0.0",
            USAGE,
        ) from error
    return ListenAddress(socket.AddressFamily(family), str(sockaddr[0]), port)


def address_of_socket(listening: socket.socket) -> ListenAddress:
    """Return the address that a socket listens on."""
    name = listening.getsockname()
    return ListenAddress(listening.family, name[0], name[1])


def listen_from(port: int, tries: int = 100) -> socket.socket:
    """Return a new socket that listens on loopback.

    Its port is ``port``, or the next free port after it.

    Raises:
        Failed: None of the ``tries`` ports from ``port`` on is free.
    """
    for each in range(port, min(port + tries, 65536)):
        try:
            return ListenAddress(socket.AF_INET, HOST, each).listen()
        except Failed as error:
            fault = error
    raise fault


#: Modules that only the extra `server` installs.
NEEDED = ("fastapi", "uvicorn", "itsdangerous", "python_multipart")
MISSING = "the HTTP API and the dashboard need the extra `server`: pip install 'perdure[server]'"


@click.command("server")
@click.option(
    "--host",
    metavar="HOST",
    default=HOST,
    show_default=True,
    help="Address to listen on. Beyond loopback, tokens are required.",
)
@click.option(
    "--port",
    metavar="N",
    type=click.IntRange(0, 65535),
    default=PORT,
    show_default=True,
    help="Port to listen on. 0: any free one.",
)
@click.option(
    "--root-path",
    metavar="PATH",
    default="",
    help="Path under which a proxy serves it, such as /perdure.",
)
@click.option(
    "--log-format", type=click.Choice(("text", "json")), help="json: one object per line."
)
@click.option(
    "--descriptor", type=int, hidden=True, help="File descriptor of a listening socket. For `up`."
)
@click.option(
    "--until-stdin-ends",
    is_flag=True,
    hidden=True,
    help="Shut down when standard input is closed. For `up`.",
)
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
    """Serve the HTTP API and the dashboard until Ctrl-C or SIGTERM.

    Several servers can serve the same runs. Without tokens the server listens on loopback only,
    and every local user may do everything. `perdure token create` creates the first token.
    """
    if not installed():
        raise Failed(MISSING, USAGE)
    from perdure.worker.web.app import RESENDS, create_app

    with state_client_for(url, resends=RESENDS) as client:
        log_format = log_format or client.settings.log_format
        if descriptor is not None:
            bound = socket.socket(fileno=descriptor)
            address = address_of_socket(bound)
        else:
            address = address_of(host, port)
            if not address.is_loopback and not has_tokens(client):
                raise Failed(
                    f"--host {host} is open to other machines, which need a token, "
                    "and no token exists. Create one, then start the server again: "
                    f"{program()} token create NAME --scope admin",
                    USAGE,
                )
            bound = address.listen()
        url_served = address_of_socket(bound).url + root_path

        def say_ready() -> None:
            if as_json:
                output.document({"url": url_served, "pid": os.getpid()})
            elif log_format == "json":
                logging.getLogger("perdure.web").info("serving at %s", url_served)
            else:
                click.echo(f"serving at {url_served}", err=True)

        from perdure.worker.logs import set_up_logging
        from perdure.worker.tracing.export import exporting
        from perdure.worker.web.serve import serve

        set_up_logging(log_format)
        if until_stdin_ends:
            threading.Thread(target=leave_with_stdin, name="stdin", daemon=True).start()
        with exporting():  # The trace of a run that is submitted here begins here.
            # A server that other machines can reach still requires a token after the last one is
            # revoked.
            serve(
                create_app(client=client, open_on_loopback=address.is_loopback),
                bound,
                say_ready,
                root_path,
            )


def installed() -> bool:
    """Return whether the extra ``server`` is installed. Its packages are not imported."""
    return all(find_spec(name) is not None for name in NEEDED)


def has_tokens(client: Client) -> bool:
    """Return whether the state server has any access token."""
    from perdure.worker.client.tokens import Tokens

    return Tokens(client).any()
