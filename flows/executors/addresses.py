"""Which addresses a command may connect to: those of the public internet."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

Address = IPv4Address | IPv6Address

#: IPv6 addresses that lead to the IPv4 address in their last 32 bits: NAT64 (RFC 6052), and IPv4-compatible (RFC 4291).
_EMBEDDING = (IPv6Network("64:ff9b::/96"), IPv6Network("::/96"))
#: So do those whose last 64 bits begin with one of these (ISATAP, RFC 5214), in whichever network.
_ISATAP = frozenset({0x0000_5EFE, 0x0200_5EFE})
#: IPv6 addresses of the public internet are all in here, but for those that stand for IPv4 ones.
_UNICAST = IPv6Network("2000::/3")
#: What the standard library takes for public, in some of its versions, and is not.
_NOT_PUBLIC = (
    IPv4Network("192.0.0.0/24"),  # of protocols; in it, 192.0.0.192 tells machines of a cloud their secrets
    IPv4Network("192.88.99.0/24"),  # relays of 6to4
    IPv4Network("168.63.129.16/32"),  # a cloud's own service beside each of its machines
    IPv6Network("3fff::/20"),  # documentation
)


class ForbiddenAddress(PermissionError):
    """It is not of the public internet: private, loopback, link-local, reserved, or multicast."""


def is_public(address: Address) -> bool:
    """Whether the address is of the public internet; one that stands for IPv4 addresses is what those are."""
    meant: list[Address] = [*_embedded(address)] or [address]
    return all(_is_public(each) for each in meant)


def is_foreign(address: Address) -> bool:
    """Whether the address is of the public internet, and not this machine's: what listens here may be for those inside."""
    return is_public(address) and not _is_own(address)


def _is_public(address: Address) -> bool:
    if any(address in network for network in _NOT_PUBLIC) or (isinstance(address, IPv6Address) and address not in _UNICAST):
        return False
    return address.is_global and not address.is_multicast and not address.is_reserved


def _is_own(address: Address) -> bool:
    """Whether an interface of this machine has it: only then can a socket be bound to it."""
    with socket.socket(socket.AF_INET if address.version == 4 else socket.AF_INET6, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((str(address), 0))
        except OSError:
            return False
    return True


def resolve(host: str, port: int, allowed: Callable[[Address], bool] = is_foreign) -> list[Address]:
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
    if (int(address) >> 32) & 0xFFFF_FFFF in _ISATAP:
        yield IPv4Address(int(address) & 0xFFFF_FFFF)
