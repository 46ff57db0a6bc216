"""Listening: the address of the control room, and the socket on it."""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
from dataclasses import dataclass

from worker.cli.exits import USAGE, Failed

HOST = "127.0.0.1"
PORT = 8787


@dataclass(frozen=True)
class Address:
    """Where to listen.

    Attributes:
        family: of the socket.
        host: an IP address.
        port: 0 is any free one.
    """

    family: socket.AddressFamily
    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches it."""
        return ipaddress.ip_address(self.host.partition("%")[0]).is_loopback

    @property
    def url(self) -> str:
        """As a browser takes it; for an address that stands for all of this machine's, one of them."""
        given = ipaddress.ip_address(self.host.partition("%")[0])
        name = ("::1" if given.version == 6 else HOST) if given.is_unspecified else self.host
        return f"http://[{name}]:{self.port}" if ":" in name else f"http://{name}:{self.port}"

    def listen(self) -> socket.socket:
        """A socket that listens there.

        Raises:
            Failed: the port is in use, or the address is none of this machine's.
        """
        try:
            everything = self.family == socket.AF_INET6 and ipaddress.ip_address(self.host.partition("%")[0]).is_unspecified
            return socket.create_server((self.host, self.port), family=self.family, dualstack_ipv6=everything)
        except OSError as error:
            why = {
                errno.EADDRINUSE: "another process listens there; end it, or choose another port with --port",
                errno.EACCES: "this user may not; choose a port from 1024 on with --port",
                errno.EADDRNOTAVAIL: "this machine has no such address; see --host",
            }.get(error.errno or 0, os.strerror(error.errno or 0))
            raise Failed(f"cannot listen at {self.host} port {self.port}: {why}") from error


def address_of(host: str, port: int) -> Address:
    """What a host name and a port stand for.

    Raises:
        Failed: there is no such host.
    """
    try:
        family, _, _, _, found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except OSError as error:
        raise Failed(
            f"--host {host}: {error.strerror or error}; expected an address of this machine, such as {HOST} or 0.0.0.0", USAGE
        ) from error
    return Address(socket.AddressFamily(family), str(found[0]), port)


def address_of_socket(listening: socket.socket) -> Address:
    """Where a socket listens."""
    name = listening.getsockname()
    return Address(listening.family, name[0], name[1])


def listen_from(port: int, tries: int = 100) -> socket.socket:
    """A socket on loopback, at this port or the next one that is free.

    Raises:
        Failed: none of ``tries`` ports is.
    """
    for each in range(port, min(port + tries, 65536)):
        try:
            return Address(socket.AF_INET, HOST, each).listen()
        except Failed as error:
            fault = error
    raise fault
