"""The server and the state server have everything that config/kubernetes requests."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from redis import Redis
from redis.exceptions import NoPermissionError

from perdure import Client
from perdure.worker.metrics.exposition import exposition
from perdure.worker.web import create_app
from tests.support.kubernetes_resources import HERE, containers, of_kind, scaled
from tests.support.kustomize import Resource
from tests.support.redis_servers import CrashableServer, server

__all__ = ["scaled"]

#: KEDA 2.20's script for the length of a list in Redis (its pkg/scalers/redis_scaler.go), shortened
#: to lists.
KEDA_ASKS = "if redis.call('type', KEYS[1]).ok == 'zset' then return redis.call('zcard', KEYS[1]) else return redis.call('llen', KEYS[1]) end"


def test_what_keda_asks_prometheus_for_is_told_by_the_server(
    scaled: list[Resource], client: Client
) -> None:
    told, _ = exposition(client, "")
    samples = {line.rpartition(" ")[0] for line in told.decode().splitlines()}
    for scaler in of_kind(scaled, "ScaledObject").values():
        queries = [
            trigger["metadata"]["query"]
            for trigger in scaler["spec"]["triggers"]
            if trigger["type"] == "prometheus"
        ]
        assert len(queries) == 2
        for asked in queries:
            assert asked.removeprefix("max(").removesuffix(")") in samples


@pytest.mark.slow
def test_what_asks_the_server_whether_it_is_well_asks_for_what_is_there(
    scaled: list[Resource], client: Client
) -> None:
    asked = {
        probe["httpGet"]["path"]
        for _, container in containers(scaled)
        for probe in container.values()
        if "httpGet" in probe
    }
    assert (
        asked
        == {"/api/v1/health", "/api/v1/ready"}
        <= set(create_app(client=client).openapi()["paths"])
    )


@pytest.fixture(scope="module")
def redis() -> Iterator[CrashableServer]:
    with server() as running:
        yield running


def test_the_user_for_keda_sees_how_long_the_queues_are_and_nothing_else(
    redis: CrashableServer,
) -> None:
    text = (HERE / "components/keda/redis.yaml").read_text("utf-8")
    [rules] = re.findall(r"(?m)^# +user keda (.+)$", text)
    with Redis(unix_socket_path=str(redis.socket)) as admin:
        admin.execute_command("ACL", "SETUSER", "keda", "reset", *rules.split())
        admin.lpush("perdure.executor", "a", "b")
        admin.set("perdure:run:x", "secret")
    with Redis(
        unix_socket_path=str(redis.socket), username="keda", password="PASSWORD", protocol=3
    ) as keda:
        assert keda.ping()
        assert keda.eval(KEDA_ASKS, 1, "perdure.executor") == 2
        assert keda.eval(KEDA_ASKS, 1, "perdure.controller") == 0
        for refused in (
            ["RPOP", "perdure.executor"],
            ["LRANGE", "perdure.executor", "0", "-1"],
            ["LPUSH", "perdure.executor", "x"],
            ["LLEN", "perdure:run:x"],
            ["CONFIG", "GET", "*"],
        ):
            with pytest.raises(NoPermissionError):
                keda.execute_command(*refused)
        with pytest.raises(NoPermissionError):
            keda.eval(KEDA_ASKS, 1, "perdure:run:x")
