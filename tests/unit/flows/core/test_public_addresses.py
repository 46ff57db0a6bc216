"""The targets of http_get: the public internet alone, however an address is written."""

from __future__ import annotations

import socket
from ipaddress import ip_address

import pytest

from perdure.flows.core.public_addresses import ForbiddenAddress, is_public, resolve
from tests.support.cases import EachCase, cases_of

#: As people who want in write them. Each is resolved as a connection would resolve it.
FORBIDDEN = [
    "localhost", "127.0.0.1", "127.1", "127.0.1", "127.255.255.254", "2130706433", "0x7f000001", "0x7f.0.0.1", "0177.0.0.1",
    "017700000001", "0", "0.0.0.0", "0x0", "10.0.0.1", "10.1", "167772161", "012.0.0.1", "172.16.0.1", "172.31.255.255",
    "192.168.0.1", "192.168.1", "3232235521", "0300.0250.0.1", "169.254.169.254", "0xa9fea9fe", "2852039166",
    "0251.0376.0251.0376", "100.64.0.1", "192.0.0.1", "192.0.2.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1",
    "240.0.0.1", "255.255.255.255", "::1", "::", "0:0:0:0:0:0:0:1", "::ffff:127.0.0.1", "::ffff:7f00:1", "::ffff:10.0.0.1",
    "::ffff:169.254.169.254", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::10.0.0.1", "64:ff9b:1::a9fe:a9fe", "2002:7f00:1::",
    "2002:a00:1::", "2001:0:7f00:1::", "fe80::1", "fc00::1", "fd00:ec2::254", "ff02::1", "2001:db8::1",
    # Where clouds keep the secrets of their machines, and addresses that only look public.
    "192.0.0.192", "100.100.100.200", "168.63.129.16", "0xa83f8110", "192.88.99.1", "::ffff:192.0.0.192", "::ffff:168.63.129.16",
    "fec0::1", "3fff::1", "5f00::1", "100::1", "4000::1", "2001:10::1", "::ffff:0:10.0.0.1", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1",
    "2001:470::5efe:a00:1", "2a00::200:5efe:127.0.0.1", "2001:0:0808:0808:0:0:80ff:fffe",
    # As names: with a dot at the end, and in digits that only people read.
    "localhost.", "LOCALHOST", "127.0.0.1.", "①②⑦.⓪.⓪.①", "127。0。0。1", "１２７.0.0.1",
]  # fmt: skip
PUBLIC = [
    "93.184.216.34",
    "8.8.8.8",
    "1.1.1.1",
    "2606:4700:4700::1111",
    "2a00:1450:4001:80b::200e",
    "::ffff:8.8.8.8",
    "64:ff9b::808:808",
]


#: A resolver may also take these for names without an owner.
UNKNOWN_OR_FORBIDDEN = {"127.0.0.1.", "localhost."}


def test_nothing_but_the_public_internet_is_resolved(each_case: EachCase) -> None:
    def check(host: str) -> None:
        unknown = (socket.gaierror,) if host in UNKNOWN_OR_FORBIDDEN else ()
        with pytest.raises((ForbiddenAddress, *unknown)) as refused:
            resolve(host, 80)
        assert refused.type is not ForbiddenAddress or host in str(refused.value)

    each_case(cases_of(FORBIDDEN), check)


@pytest.mark.parametrize("address", PUBLIC)
def test_the_public_internet_is(address: str) -> None:
    assert is_public(ip_address(address))


def test_a_scope_is_no_part_of_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        socket,
        "getaddrinfo",
        lambda *_, **__: [(socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("fe80::1%eth0", 80, 0, 2))],
    )
    with pytest.raises(ForbiddenAddress, match="fe80::1"):
        resolve("here.example", 80)
