"""A server that would lose runs, and the worker of an app: the app's tasks run, and no round is
played.

Reports of others on such a server are in tests/run/runtime/test_durability.py.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import redis
from celery import Celery

from perdure import Client
from perdure.worker.app import broker_url
from perdure.worker.settings import Settings
from tests.support.command_line import ROOT, CommandLine
from tests.support.page_visitor import Visitor
from tests.support.redis_servers import CrashableServer, server, until
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


@pytest.fixture
def relaxed(strict: Settings) -> Settings:
    return strict.model_copy(update={"durability": "relaxed"})


@contextmanager
def host_worker(
    tmp_path: Path, broker: str, **variables: str
) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """Start a worker of a user's app with Perdure on it; yield it and its log."""
    log = tmp_path / "host.log"
    bare = {
        name: text
        for name, text in os.environ.items()
        if not name.startswith(("PERDURE_", "CELERY_"))
    }
    environment = {
        **bare,
        "PYTHONPATH": str(ROOT),
        "PERDURE_PREFIX": PREFIX,
        "PERDURE_FLOW_MODULES": "tests.support.example_flows.rings",
        "THEIRS_BROKER": broker,
        "THEIRS_RESULTS": broker,
        **variables,
    }
    command = [
        sys.executable,
        "-m",
        "celery",
        "-A",
        "tests.support.apps.user_app",
        "worker",
        "-P",
        "threads",
        "-c",
        "2",
    ]
    with (
        log.open("w") as said,
        subprocess.Popen(command, cwd=ROOT, env=environment, stdout=said, stderr=said) as process,
    ):
        try:
            yield process, log
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                process.wait(30)


def in_kombus_words(running: CrashableServer) -> str:
    return broker_url(running.url).replace("perdure+socket", "redis+socket")


def its_own_task_runs(broker: str) -> None:
    with Celery("sender", broker=broker, backend=broker, set_as_current=False) as app:
        app.conf.task_default_queue = "theirs"
        assert app.send_task("tests.support.apps.user_app.add", (2, 1)).get(30) == 3


def test_the_hosts_worker_runs_its_own_tasks_and_plays_no_rounds(
    forgetful: CrashableServer, relaxed: Settings, tmp_path: Path
) -> None:
    broker = in_kombus_words(forgetful)
    accepted = Client(settings=relaxed)
    run = accepted.submit("ledger", "g", {"rounds": 2})
    with host_worker(tmp_path, broker) as (process, log):
        its_own_task_runs(broker)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        told = [line for line in log.read_text().splitlines() if "plays no rounds" in line]
    assert len(told) == 1 and "appendonly" in told[0] and "PERDURE_DURABILITY=relaxed" in told[0]
    assert accepted.get(run.id).state.step == 0 and not accepted.workers()
    accepted.close()


def test_relaxed_plays_says_what_may_be_lost_and_is_shown(
    forgetful: CrashableServer, relaxed: Settings, tmp_path: Path
) -> None:
    with (
        host_worker(tmp_path, in_kombus_words(forgetful), PERDURE_DURABILITY="relaxed") as (_, log),
        closing(Client(settings=relaxed)) as client,
    ):
        until(lambda: bool(client.workers()), "the worker's announcement", 30)
        assert client.wait(client.submit("ledger", "g", {"rounds": 2}).id, 60).answer == [0, 1]
        assert [worker["durability"] for worker in client.workers()] == ["relaxed"]
        perdure = CommandLine(tmp_path, relaxed, PERDURE_DURABILITY="relaxed")
        assert "durability is relaxed" in perdure("workers").err
        [row] = [
            row for row in perdure("doctor", "--json").json if row["check"] == "append-only-file"
        ]
        assert row["level"] == "warning" and "durability is relaxed" in row["sentence"]
        with serving(relaxed) as url, Visitor(url) as visitor:
            assert "Durability is relaxed" in visitor.see("/fleet").text
    assert "accepted because durability is relaxed" in log.read_text()
