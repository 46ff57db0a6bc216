"""A state server that a module's tests may spoil, and the doctor's report on it.

A test module imports the fixtures that it uses.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis

from perdure import Client, Settings
from perdure.worker.doctor import Finding, Level
from tests.support.redis_servers import CrashableServer, available_binaries, server, until

PREFIX = "doctor"


@pytest.fixture(scope="module", params=["valkey", pytest.param("redis", marks=pytest.mark.slow)])
def own_server(request: pytest.FixtureRequest) -> Iterator[CrashableServer]:
    """A server that a module may spoil. Each test mends its own damage."""
    if request.param not in available_binaries() and "CI" not in os.environ:
        pytest.skip(f"this machine has no {request.param}-server")
    with server(request.param, "everysec") as running:
        yield running


@contextmanager
def without_disk() -> Iterator[CrashableServer]:
    """Start a server that answers every write with MISCONF: a directory stands where its snapshot
    should go.
    """
    with server("valkey", "everysec") as running:
        (running.directory / "dump.rdb").mkdir()
        (running.directory / "dump.rdb" / "full").touch()  # an empty one could be replaced
        with redis.Redis.from_url(running.url, decode_responses=True) as client:
            client.config_set("save", "3600 1")
            client.bgsave()
            until(
                lambda: client.info("persistence")["rdb_last_bgsave_status"] == "err",
                "a snapshot that fails",
            )
            yield running
            client.config_set("save", "")  # else it would try once more before it ends


@pytest.fixture
def settings(own_server: CrashableServer) -> Settings:
    return Settings(redis_url=own_server.url, prefix=PREFIX)


@pytest.fixture
def spoil(own_server: CrashableServer) -> Iterator[redis.Redis]:
    """A connection to change the server with.

    Afterwards its configuration is put back, and its data removed.
    """
    with redis.Redis.from_url(own_server.url, decode_responses=True) as client:
        names = (
            "maxmemory",
            "maxmemory-policy",
            "appendonly",
            "appendfsync",
            "min-replicas-to-write",
            "port",
            "bind",
        )
        before: dict[str, Any] = {name: client.config_get(name)[name] for name in names}
        yield client
        for name, value in before.items():
            client.config_set(name, value)
        client.flushall()


def rows(settings: Settings) -> dict[str, Finding]:
    """Return the doctor's findings, by check."""
    client = Client(settings=settings)
    try:
        return {finding.check: finding for finding in client.doctor()}
    finally:
        client.close()


def row(settings: Settings, check: str) -> Finding:
    return rows(settings)[check]


def only(found: dict[str, Finding], level: Level) -> list[str]:
    return [check for check, finding in found.items() if finding.level is level]


@pytest.fixture
def hidden(settings: Settings, spoil: redis.Redis) -> Iterator[Settings]:
    """The same server for a user who may not ask how it is set."""
    spoil.execute_command(
        "ACL",
        "SETUSER",
        "managed",
        "reset",
        "on",
        ">secret",
        "~*",
        "&*",
        "+@all",
        "-config",
        "-info",
    )
    yield settings.model_copy(
        update={"redis_url": f"{settings.redis_url}".replace("unix://", "unix://managed:secret@")}
    )
    spoil.execute_command("ACL", "DELUSER", "managed")
