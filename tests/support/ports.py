"""Ports for servers that must know theirs before they start."""

from __future__ import annotations

import random
import socket

LOOPBACK = "127.0.0.1"

#: Below the ports that Linux gives to clients, and for port 0 (32768 and above): a
#: port from there may be taken by another process of the tests before its server starts.
RANGE = range(20_000, 32_000)
_CHANCE = random.SystemRandom()  # Hypothesis seeds the other one, alike in every process


def free_port() -> int:
    """Return a port of loopback on which nothing listens."""
    [port] = free_ports(1)
    return port


def free_ports(count: int) -> list[int]:
    """Return ``count`` different ports of loopback on which nothing listens."""
    found: set[int] = set()
    while len(found) < count:
        port = _CHANCE.choice(RANGE)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((LOOPBACK, port))
            except OSError:
                continue
            found.add(port)
    return list(found)
