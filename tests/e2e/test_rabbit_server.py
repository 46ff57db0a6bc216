"""The broker of the tests: on loopback alone, and confirmed messages outlive its death."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import amqp
import pytest

from tests.support.os_processes import open_files
from tests.support.rabbitmq import RabbitServer, rabbit_binary, rabbit_server
from tests.support.redis_servers import until

pytestmark = pytest.mark.slow
LISTENING = "0A"
#: As the kernel writes them.
LOOPBACK = {"0100007F", "00000000000000000000000001000000"}


@pytest.fixture
def own_rabbit() -> Iterator[RabbitServer]:
    if rabbit_binary() is None and "CI" not in os.environ:
        pytest.skip("this machine has no rabbitmq-server")
    with rabbit_server() as running:
        yield running


def addresses(process: int) -> list[tuple[str, int]]:
    """Return the addresses and ports of a process."""
    files = open_files(process)
    lines = [
        line.split()
        for table in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]
    ]
    found = [
        line[1].split(":")
        for line in lines
        if line[3] == LISTENING and f"socket:[{line[9]}]" in files
    ]
    return [(address, int(port, 16)) for address, port in found]


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="reads Linux's tables of sockets")
def test_broker_and_epmd_listen_on_loopback_alone(rabbit: RabbitServer) -> None:
    assert rabbit._epmd is not None
    found = [*addresses(rabbit.pid), *addresses(rabbit._epmd.pid)]
    assert {port for _, port in found} == {rabbit.port, rabbit._node_port, rabbit._epmd_port}
    assert {address for address, _ in found} <= LOOPBACK


@pytest.mark.slow
def test_a_killed_broker_comes_back_with_what_it_confirmed(own_rabbit: RabbitServer) -> None:
    connection = own_rabbit.connection(confirm_publish=True)
    channel = connection.channel()
    channel.queue_declare(
        "kept", durable=True, auto_delete=False, arguments={"x-queue-type": "quorum"}
    )
    channel.basic_publish(amqp.Message("text", delivery_mode=2), routing_key="kept")
    until(lambda: own_rabbit.settled("kept"), "the queue's name on disk")
    own_rabbit.kill()
    connection.collect()
    assert not own_rabbit.speaks_amqp()
    own_rabbit.start()
    with own_rabbit.connection() as connection:
        channel = connection.channel()
        until(lambda: channel.basic_get("kept") is not None, "the message")


@pytest.mark.slow
def test_a_frozen_broker_says_nothing_until_it_is_thawed(own_rabbit: RabbitServer) -> None:
    with own_rabbit.connection() as connection:
        channel = connection.channel()
        own_rabbit.freeze()
        with socket.create_connection(("127.0.0.1", own_rabbit.port), 5):
            assert not own_rabbit.speaks_amqp()
        own_rabbit.thaw()
        assert channel.queue_declare("alive").message_count == 0
