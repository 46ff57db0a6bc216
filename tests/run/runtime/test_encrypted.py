"""Servers with encrypted URLs are never addressed in plain."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis

from perdure import Settings
from perdure.worker.app import make_app
from perdure.worker.store.sentinel import client_of, sentinel_options, ssl_options
from perdure.worker.urls import parse_sentinels


@pytest.mark.parametrize(
    ("scheme", "setting"),
    [("rediss", "redis_url"), ("rediss", "broker_url"), ("amqps", "broker_url")],
)
def test_an_encrypted_broker_is_never_spoken_to_in_plain(scheme: str, setting: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor(1) as asking:
        url = f"{scheme}://me:secret@127.0.0.1:{listening.getsockname()[1]}"
        app = make_app(Settings(**{"redis_url": "redis://localhost", setting: url}))
        asked = asking.submit(
            lambda: app.connection_for_read(transport_options={"max_retries": 0}).default_channel
        )
        with listening.accept()[0] as accepted:
            first = accepted.recv(1)
        listening.close()
        assert first == b"\x16", "a TLS handshake"
        assert asked.exception() is not None


@pytest.mark.parametrize("setting", ["redis_url", "broker_url"])
def test_encrypted_neither_sentinels_nor_servers_are_spoken_to_in_plain(setting: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor(1) as asking:
        url = f"rediss+sentinel://me:secret@127.0.0.1:{listening.getsockname()[1]}/m?sentinel_password=own"
        app = make_app(Settings(**{"redis_url": "redis://localhost", setting: url}))
        if setting == "redis_url":
            asked = asking.submit(client_of(url).ping)
        else:
            asked = asking.submit(
                lambda: (
                    app.connection_for_read(transport_options={"max_retries": 0}).default_channel
                )
            )
        with listening.accept()[0] as accepted:
            first = accepted.recv(1)
        listening.close()
        assert first == b"\x16", "a TLS handshake"
        assert asked.exception() is not None


def test_the_way_from_the_sentinels_to_the_master_is_encrypted_too() -> None:
    service = parse_sentinels("rediss+sentinel://a:1/m?ssl_cert_reqs=optional")
    pool = client_of(str(service)).connection_pool
    assert issubclass(pool.connection_class, redis.SSLConnection)
    assert ssl_options(service) == {"ssl_cert_reqs": "optional"}
    assert (
        pool.connection_kwargs["ssl_cert_reqs"]
        == sentinel_options(service)["ssl_cert_reqs"]
        == "optional"
    )
    ours = make_app(Settings(redis_url=str(service)))
    assert ours.connection_for_read().ssl
