"""Rules for the addresses that a command may use: public internet addresses only."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

Address = IPv4Address | IPv6Address

#: IPv6 ranges whose last 32 bits are the IPv4 address that is really reached: NAT64 (RFC 6052) and
#: IPv4-compatible addresses (RFC 4291).
_EMBEDDING = (IPv6Network("64:ff9b::/96"), IPv6Network("::/96"))
#: First half of the last 64 bits of an ISATAP address (RFC 5214), in any network. The other half is
#: the IPv4 address.
_ISATAP = frozenset({0x0000_5EFE, 0x0200_5EFE})
#: All public IPv6 addresses lie in this range, except the ranges that embed IPv4 addresses.
_UNICAST = IPv6Network("2000::/3")
#: Networks that some versions of the standard library report as public although they are not.
_NOT_PUBLIC = (
    IPv4Network("192.0.0.0/24"),  # protocol assignments; 192.0.0.192 is a cloud's metadata service
    IPv4Network("192.88.99.0/24"),  # 6to4 relays
    IPv4Network("168.63.129.16/32"),  # a cloud's service for its own machines
    IPv6Network("3fff::/20"),  # documentation
)


class ForbiddenAddress(PermissionError):
    """Raised for a host with a forbidden address.

    By default, allowed addresses are public, and are not addresses of this machine. Private,
    loopback, link-local, reserved and multicast addresses are not public.
    """


def is_public(address: Address) -> bool:
    """Return whether an address is on the public internet.

    An IPv6 address that embeds IPv4 addresses is public if all of those are.
    """
    actual: list[Address] = [*_embedded(address)] or [address]
    return all(_is_public(one) for one in actual)


def is_foreign(address: Address) -> bool:
    """Return whether an address is public and does not belong to this machine.

    A server that listens on this machine may be meant for internal clients only.
    """
    return is_public(address) and not _is_own(address)


def _is_public(address: Address) -> bool:
    if any(address in network for network in _NOT_PUBLIC) or (
        isinstance(address, IPv6Address) and address not in _UNICAST
    ):
        return False
    return address.is_global and not address.is_multicast and not address.is_reserved


def _is_own(address: Address) -> bool:
    """Return whether this machine's interfaces have this IP address.

    A socket can be bound to the address only in that case.
    """
    with socket.socket(
        socket.AF_INET if address.version == 4 else socket.AF_INET6, socket.SOCK_DGRAM
    ) as probe:
        try:
            probe.bind((str(address), 0))
        except OSError:
            return False
    return True


def resolve(host: str, port: int, allowed: Callable[[Address], bool] = is_foreign) -> list[Address]:
    """Resolve a host name to its checked addresses.

    The caller should connect to one of the returned addresses and not resolve the name again.

    Args:
        allowed: returns whether a command may connect to an address.

    Raises:
        ForbiddenAddress: One of the addresses is not allowed. A name with both a public and a
            private address is treated as an attack.
        OSError: The name does not resolve.
    """
    entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = list(dict.fromkeys(_address(entry[4]) for entry in entries))
    for address in addresses:
        if not allowed(address):
            raise ForbiddenAddress(
                f"{host} resolves to {address}, which is not a public internet address or "
                "belongs to this machine; nothing was sent"
            )
    return addresses


def _address(sockaddr: Sequence[object]) -> Address:
    return ip_address(str(sockaddr[0]).partition("%")[0])


def _embedded(address: Address) -> Iterator[IPv4Address]:
    if isinstance(address, IPv4Address):
        return
    for embedded in (address.ipv4_mapped, address.sixtofour, *(address.teredo or ())):
        if embedded is not None:
            yield embedded
    if any(address in network for network in _EMBEDDING):
        yield IPv4Address(int(address) & 0xFFFF_FFFF)
    if (int(address) >> 32) & 0xFFFF_FFFF in _ISATAP:
        yield IPv4Address(int(address) & 0xFFFF_FFFF)
