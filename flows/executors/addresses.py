"""Which addresses a command may connect to: those of the public internet."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

Address = IPv4Address | IPv6Address

#: IPv6 addresses that lead to the IPv4 address in their last 32 bits: NAT64 (RFC 6052), and IPv4-compatible (RFC 4291).
_EMBEDDING = (IPv6Network("64:ff9b::/96"), IPv6Network("::/96"))


class ForbiddenAddress(PermissionError):
    """It is not of the public internet: private, loopback, link-local, reserved, or multicast."""


def is_public(address: Address) -> bool:
    """Whether the address is of the public internet; one that stands for IPv4 addresses is what those are."""
    meant: list[Address] = [*_embedded(address)] or [address]
    return all(each.is_global and not each.is_multicast and not each.is_reserved for each in meant)


def resolve(host: str, port: int, allowed: Callable[[Address], bool] = is_public) -> list[Address]:
    """The addresses of ``host``, in the resolver's order; whoever connects to one of them need not ask again.

    Raises:
        ForbiddenAddress: one of them is not allowed. A name that has both a public and a private address is somebody's trick.
        OSError: it does not resolve.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = list(dict.fromkeys(_address(entry[4]) for entry in found))
    for address in addresses:
        if not allowed(address):
            raise ForbiddenAddress(f"{host} is {address}, which is not an address of the public internet; nothing was sent there")
    return addresses


def _address(sockaddr: Sequence[object]) -> Address:
    return ip_address(str(sockaddr[0]).partition("%")[0])


def _embedded(address: Address) -> Iterator[IPv4Address]:
    if isinstance(address, IPv4Address):
        return
    for found in (address.ipv4_mapped, address.sixtofour, *(address.teredo or ())):
        if found is not None:
            yield found
    if any(address in network for network in _EMBEDDING):
        yield IPv4Address(int(address) & 0xFFFF_FFFF)
