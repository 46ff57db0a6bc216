"""A canary for a password: it goes through everything that speaks, and is nowhere to be read
afterwards.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

from perdure import Client, Settings
from tests.support.acl_server import LockedServer, password
from tests.support.canary_password import CANARY, locked
from tests.support.redis_servers import until
from tests.support.workers import ROOT

__all__ = ["locked"]

FLOWS = "tests.support.example_flows.rings"


#: Seconds until a worker has left. A child of billiard's pool waits up to 30 s for its parent to
#: have read its last result, which may never happen after the connection was killed.
LEAVES = 60


@contextmanager
def spoken(log: Path, *command: str, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process whose output goes to ``log``."""
    bare = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PERDURE_", "CELERY_"))
    }
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, *command],
            cwd=ROOT,
            env={**bare, "PYTHONPATH": str(ROOT), "PERDURE_FLOW_MODULES": FLOWS, **environment},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
        )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(LEAVES)


def command_lines(pid: int) -> str:
    """Return the command lines of a process and its children, as ``ps`` shows them."""
    lines = Path(f"/proc/{pid}/cmdline").read_text()
    for thread in Path(f"/proc/{pid}/task").iterdir():
        for child in (thread / "children").read_text().split():
            lines += command_lines(int(child))
    return lines


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_worker_at_debug_never_writes_its_password(locked: LockedServer, tmp_path: Path) -> None:
    """Neither to its log nor to the server, nor into the list of processes; nor does Celery's own
    banner.
    """
    log = tmp_path / "log"
    command = [
        "-m",
        "celery",
        "-A",
        "perdure.app",
        "worker",
        "--loglevel",
        "DEBUG",
        "--pool",
        "prefork",
        "--concurrency",
        "2",
    ]
    command += ["--without-gossip", "--without-mingle", "--without-heartbeat"]
    producer = Client(settings=Settings(redis_url=locked.url("producer"), flow_modules=(FLOWS,)))
    with spoken(log, *command, PERDURE_REDIS_URL=locked.url("worker")) as process:
        assert producer.wait(producer.submit("ledger", "g", {"rounds": 2}).id, 60).answer == [0, 1]
        producer.wait(producer.submit("trouble", "g", {"kind": "plain"}).id, 60)
        seen = command_lines(process.pid)
        with locked.login("operator") as operator:
            operator.execute_command("CLIENT", "KILL", "USER", "worker")
            operator.execute_command("ACL", "SETUSER", "worker", "off")
            operator.execute_command("CLIENT", "KILL", "USER", "worker")
            until(
                lambda: "refuses the user" in log.read_text() and "consumer:" in log.read_text(),
                "the refusals",
                60,
            )
            operator.execute_command("ACL", "SETUSER", "worker", "on")
            stored = contents(operator)
    said = log.read_text()
    assert "ledger" in stored and "concurrency:" in said and "ordinary exception" in said
    assert CANARY not in said and CANARY not in stored and CANARY not in seen
    assert password("producer") not in said + stored
    producer.close()


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("broker", [None, f"amqp://me:{CANARY}@127.0.0.1:1//"])
def test_a_worker_that_is_refused_says_so_without_its_password(
    locked: LockedServer, tmp_path: Path, broker: str | None
) -> None:
    log = tmp_path / "log"
    url = (
        locked.url("worker")
        if broker
        else locked.url("worker").replace("unix://worker", "unix://nobody")
    )
    variables = {"PERDURE_REDIS_URL": url, "PERDURE_LOG_FORMAT": "json"} | (
        {"PERDURE_BROKER_URL": broker} if broker else {}
    )
    with spoken(log, "-P", "-m", "perdure", "worker", **variables) as process:
        until(lambda: "refuse" in log.read_text(), "a refusal", 60)
        if broker:
            until(lambda: "the broker at" in log.read_text(), "a refusal by the broker", 60)
        else:
            process.wait(30)
    assert CANARY not in log.read_text()


def contents(operator: redis.Redis) -> str:
    """Return everything the server holds."""
    read = {
        "hash": "hgetall",
        "string": "get",
        "zset": "zrange KEY 0 -1",
        "list": "lrange KEY 0 -1",
        "stream": "xrange KEY - +",
    }
    found = {}
    for key in operator.scan_iter():
        call = read[str(operator.type(key))]
        found[key] = operator.execute_command(
            *[
                key if word == "KEY" else word
                for word in (call if " " in call else f"{call} KEY").split()
            ]
        )
    return json.dumps(found, default=str)
