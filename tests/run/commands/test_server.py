"""The addresses of the dashboard and the HTTP API."""

from __future__ import annotations

import socket
from contextlib import closing

import pytest

from perdure.worker.cli.commands.server import (
    ListenAddress,
    address_of,
    address_of_socket,
    listen_from,
)
from perdure.worker.cli.exit_codes import USAGE, Failed


@pytest.mark.parametrize(
    ("host", "alone"),
    [
        ("127.0.0.1", True),
        ("127.8.7.6", True),
        ("localhost", True),
        ("::1", True),
        ("0.0.0.0", False),
        ("::", False),
    ],
)
def test_only_loopback_is_reached_from_this_machine_alone(host: str, alone: bool) -> None:
    assert address_of(host, 8787).is_loopback is alone


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:80"),
        ("0.0.0.0", "http://127.0.0.1:80"),
        ("::", "http://[::1]:80"),
        ("10.1.2.3", "http://10.1.2.3:80"),
    ],
)
def test_the_url_is_one_that_a_browser_takes(host: str, url: str) -> None:
    assert address_of(host, 80).url == url


def test_a_port_in_use_is_a_sentence() -> None:
    with closing(address_of("127.0.0.1", 0).listen()) as other:
        port = address_of_socket(other).port
        with pytest.raises(Failed, match=f"port {port}: the port is in use.*--port"):
            address_of("127.0.0.1", port).listen()


def test_the_next_free_port_is_taken() -> None:
    with closing(address_of("127.0.0.1", 0).listen()) as other:
        port = address_of_socket(other).port
        with closing(listen_from(port)) as found:
            assert port < address_of_socket(found).port < port + 100
        with pytest.raises(Failed, match="in use"):
            listen_from(port, tries=1)


def test_a_host_that_is_not_there_is_a_sentence() -> None:
    with pytest.raises(Failed, match="--host no host") as error:
        address_of("no host", 80)
    assert error.value.exit_code == USAGE
    with pytest.raises(Failed, match="see --host"):
        ListenAddress(socket.AF_INET, "192.0.2.1", 0).listen()
