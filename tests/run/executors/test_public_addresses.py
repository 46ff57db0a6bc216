"""Addresses of this machine and private ones, looked up on real sockets."""

from __future__ import annotations

import socket
from ipaddress import ip_address
from typing import Any

import pytest

from perdure.flows.core import public_addresses
from perdure.flows.core.public_addresses import ForbiddenAddress, is_foreign, resolve


def test_an_address_of_this_machine_is_not_foreign(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if it is public: a server that listens here may be for those inside."""
    assert is_foreign(ip_address("8.8.8.8")) and is_foreign(ip_address("2606:4700:4700::1111"))
    monkeypatch.setattr(
        public_addresses, "is_public", lambda address: True
    )  # loopback stands for an interface with a public address
    assert not is_foreign(ip_address("127.0.0.1")) and is_foreign(ip_address("8.8.8.8"))


def test_a_name_with_one_private_address_is_refused_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    def both(host: str, port: int, **_: Any) -> list[Any]:
        return [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))
            for address in ("8.8.8.8", "10.0.0.1")
        ]

    monkeypatch.setattr(socket, "getaddrinfo", both)
    with pytest.raises(ForbiddenAddress, match=r"10\.0\.0\.1"):
        resolve("both.example", 80)
