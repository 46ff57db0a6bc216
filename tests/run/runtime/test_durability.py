"""A server that would lose runs: clients, commands and the HTTP API say why in the words of the
worker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx2
import pytest
import redis

from perdure import AsyncClient, Client
from perdure.worker.doctor.durability_checks import refusal, voids
from perdure.worker.doctor.server_checks import memory
from perdure.worker.domain.verdict import Level
from perdure.worker.errors import UnsafeServer
from perdure.worker.settings import Settings
from perdure.worker.store.inspection import Inspection, inspect
from tests.support.command_line import CommandLine
from tests.support.page_visitor import Visitor
from tests.support.redis_servers import CrashableServer, server
from tests.support.threaded_server import serving

PREFIX = "durability"


@pytest.fixture
def forgetful() -> Iterator[CrashableServer]:
    """A server as Debian and many providers run it: without an append-only file."""
    with server("valkey", "no") as running:
        with redis.Redis.from_url(running.url) as client:
            client.config_set("appendonly", "no")
        yield running


@pytest.fixture
def strict(forgetful: CrashableServer) -> Settings:
    return Settings(
        redis_url=forgetful.url, prefix=PREFIX, flow_modules=("tests.support.example_flows.rings",)
    )


def test_submissions_and_the_readiness_probe_refuse_in_the_words_of_the_worker(
    strict: Settings, tmp_path: Path
) -> None:
    url = strict.redis_url or ""
    words = refusal(url, voids(inspect(url, PREFIX, contents=False), strict))
    with closing(Client(settings=strict)) as client, pytest.raises(UnsafeServer) as refused:
        client.submit("ledger", "g")
    assert str(refused.value) == words

    async def asked() -> None:
        client = AsyncClient(settings=strict)
        try:
            await client.submit("ledger", "g")
        finally:
            await client.close()

    with pytest.raises(UnsafeServer) as refused:
        asyncio.run(asked())
    assert str(refused.value) == words
    done = CommandLine(tmp_path, strict, PERDURE_FLOW_MODULES="tests.support.example_flows.rings")(
        "submit", "ledger", "g"
    )
    assert done.code == 8 and words in done.err
    with serving(strict) as room:
        for answer in (
            httpx2.get(f"{room}/api/v1/ready"),
            httpx2.post(f"{room}/api/v1/runs", json={"flow": "ledger", "goal": "g"}),
        ):
            assert (
                answer.status_code == 503
                and answer.json()["type"] == "urn:perdure:unsafe-server"
                and answer.json()["detail"] == words
            )


def test_a_server_that_keeps_runs_is_asked_once_a_minute(
    server: CrashableServer, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(
        "perdure.worker.doctor.durability_checks.check_durability",
        lambda url, settings: asked.append(url),
    )
    settings = Settings(redis_url=server.url, prefix=prefix)
    with closing(Client(settings=settings)) as client:
        for _ in range(3):
            client.submit("countdown", "g", {"rounds": 1})
        assert len(asked) == 1
        client._session._durable_until = 0.0
        client.submit("countdown", "g", {"rounds": 1})
        assert len(asked) == 2


def test_no_setting_accepts_a_cluster() -> None:
    told = Inspection(
        config={"appendonly": "no", "maxmemory-policy": "allkeys-lru"}, info={"cluster_enabled": 1}
    )
    assert [found.check for found in voids(told, Settings())] == [
        "cluster",
        "eviction-policy",
        "append-only-file",
    ]
    left = voids(told, Settings(durability="relaxed"))
    assert [found.check for found in left] == ["cluster"] and "relaxed" not in refusal(
        "redis://h:1/0", left
    )


@pytest.mark.parametrize(
    ("used", "most", "level", "word"),
    [
        (10, 0, Level.OK, "without a limit"),
        (79, 100, Level.OK, "79%"),
        (80, 100, Level.WARNING, "nearly full"),
        (120, 100, Level.WARNING, "is full"),
    ],
)
def test_the_doctor_tells_how_full_the_server_is(
    used: int, most: int, level: Level, word: str
) -> None:
    found = memory(Inspection(info={"used_memory": used * 10**6, "maxmemory": most * 10**6}))
    assert found.level is level and word in found.sentence


def test_a_server_that_is_full_is_read_and_told_so(tmp_path: Path) -> None:
    with server("redis" if (Path("/usr/bin/redis-server")).exists() else "valkey", "no") as running:
        settings = Settings(redis_url=running.url, prefix=PREFIX)
        with (
            closing(Client(settings=settings)) as client,
            redis.Redis.from_url(running.url) as direct,
        ):
            run = client.submit("countdown", "g", {"rounds": 1}, interrupt_before=["Controller"])
            direct.config_set("maxmemory", "100kb")
            perdure = CommandLine(tmp_path, settings)
            for command in (
                ("show", run.id),
                ("why", run.id),
                ("list",),
                ("workers",),
                ("inbox",),
                ("doctor",),
                ("flows",),
                ("tree", run.id),
                ("value", run.id),
                ("notes", "list"),
                ("notifications", "list"),
            ):
                assert perdure(*command).code == 0, command
            assert list(client.events(run.id, after="1-0", follow=False))
            assert client.notes("shop") == client.notes("shop", "a b") == []
            [row] = [row for row in perdure("doctor", "--json").json if row["check"] == "memory"]
            assert (
                row["level"] == "warning"
                and "is full" in row["sentence"]
                and "perdure delete" in row["remedy"]
            )
            refused = perdure("submit", "countdown", "g")
            assert (
                refused.code == 7
                and "is full (" in refused.err
                and "perdure delete --status completed" in refused.err
            )
            with serving(settings) as url, Visitor(url) as visitor:
                for path in ("/runs", f"/runs/{run.id}", "/inbox", "/stuck", "/fleet", "/start"):
                    assert visitor.see(path).status == 200, path
                answer = httpx2.post(f"{url}/api/v1/runs", json={"flow": "countdown", "goal": "g"})
            assert answer.status_code == 503 and answer.json()["type"] == "urn:perdure:server-full"
            direct.config_set("maxmemory", "0")
