"""A canary for a password: it goes through everything that speaks, and is nowhere to be read afterwards."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis

from perdure import Client, PerdureError, Settings
from perdure.worker.cli.main import run as perdure
from perdure.worker.settings import load_settings
from tests.support.acl_server import LockedServer, locked_server, password
from tests.support.redis_servers import until
from tests.support.workers import ROOT

CANARY = password("worker")
FLOWS = "tests.support.example_flows.rings"
#: URLs that cannot be used, each for another reason.
UNUSABLE = [
    f"redis://me:{CANARY}@127.0.0.1:1/0",
    f"rediss://me:{CANARY}@127.0.0.1:1/0?ssl_ca_certs=/none",
    f"redis://me:{CANARY}@127.0.0.1:port/0",
    f"redis://me:{CANARY}#more@127.0.0.1/0",
    f"redis://me:{CANARY}@127.0.0.1/zero",
    f"redis://me:{CANARY}@[::1/0",
    f"redis://127.0.0.1:1/0?password={CANARY}&what={CANARY}",
    f"unix://me:{CANARY}@/nowhere.sock",
    f"unix:///nowhere.sock?password={CANARY}&db=x",
    f"http://me:{CANARY}@127.0.0.1/0",
    f"me:{CANARY}@127.0.0.1",
]
BROKERS = [
    f"amqp://me:{CANARY}@127.0.0.1:1//",
    f"amqps://me:{CANARY}@127.0.0.1:1//?ssl_what={CANARY}",
    f"amqp://me:{CANARY}@127.0.0.1:1/v;amqp://me:{CANARY}@127.0.0.1:2/v",
    f"redis://me:{CANARY}@127.0.0.1:1/1",
    f"sqs://me:{CANARY}@127.0.0.1:1/1",
    f"amqp://me:{CANARY}/@127.0.0.1:1//",
]


@pytest.fixture(scope="module")
def locked() -> Iterator[LockedServer]:
    with locked_server("valkey") as running:
        yield running


def test_settings_show_their_urls_without_passwords() -> None:
    settings = Settings(
        redis_url=f"redis://me:{CANARY}@h/1?password={CANARY}",
        broker_url=f"amqp://me:{CANARY}@a//;amqp://me:{CANARY}@b//",
    )
    shown = [
        repr(settings),
        str(settings),
        f"{settings}",
        settings.model_dump_json(),
        repr([settings]),
    ]
    for text in [*shown, repr(settings.model_copy(update={"redis_url": f"redis://:{CANARY}@h"}))]:
        assert CANARY not in text and "redis://h" in text
    assert settings.redis_url is not None and CANARY in settings.redis_url


@pytest.mark.parametrize(
    "given", [{"lease_seconds": 0.1}, {"prefix": "no prefix"}, {"redis_url": [CANARY]}, {"what": 1}]
)
def test_no_fault_of_the_settings_repeats_their_passwords(given: dict[str, Any]) -> None:
    given = {"redis_url": f"redis://me:{CANARY}@h", **given}
    with pytest.raises(ValueError) as wrong:
        Settings(**given)
    assert CANARY not in str(wrong.value)
    with pytest.raises(PerdureError) as told:
        load_settings(**given)
    assert CANARY not in everything_of(told.value)


def everything_of(error: BaseException) -> str:
    """What a traceback of the error would say, its causes' texts included."""
    import traceback

    return "".join(traceback.format_exception(error)) + repr(error)


@pytest.mark.slow
@pytest.mark.parametrize("url", UNUSABLE)
def test_no_error_repeats_the_password_of_a_state_server(
    url: str, monkeypatch: Any, capfd: Any, caplog: Any, tmp_path: Path
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PERDURE_DEBUG", "1")  # tracebacks, too
    for arguments in (["list"], ["doctor", "--json"], ["worker"]):
        assert perdure([*arguments, "--url", url]) in (2, 7)
    with pytest.raises(PerdureError) as error:
        Client(url).runs()
    said = capfd.readouterr()
    assert CANARY not in said.out + said.err + caplog.text + everything_of(error.value)


@pytest.mark.slow
@pytest.mark.parametrize("url", BROKERS)
def test_no_error_repeats_the_password_of_a_broker(
    url: str, locked: LockedServer, monkeypatch: Any, capfd: Any, caplog: Any
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("PERDURE_REDIS_URL", locked.url("producer"))
    monkeypatch.setenv("PERDURE_BROKER_URL", url)
    monkeypatch.setenv("PERDURE_DEBUG", "1")
    for arguments in (["submit", "countdown", "x"], ["doctor"], ["doctor", "--json"]):
        assert perdure(arguments) in (0, 2)
    said = capfd.readouterr()
    assert CANARY not in said.out + said.err + caplog.text


#: Seconds until a worker has left. A child of billiard's pool waits up to 30 s for its parent to
#: have read its last result, which may never happen after the connection was killed.
LEAVES = 60


@contextmanager
def spoken(log: Path, *command: str, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process whose every word goes to ``log``."""
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
    """What ``ps`` shows of a process and its children."""
    lines = Path(f"/proc/{pid}/cmdline").read_text()
    for thread in Path(f"/proc/{pid}/task").iterdir():
        for child in (thread / "children").read_text().split():
            lines += command_lines(int(child))
    return lines


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_worker_at_debug_never_writes_its_password(locked: LockedServer, tmp_path: Path) -> None:
    """Neither to its log nor to the server, nor into the list of processes; nor does Celery's own banner."""
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
    """Everything the server holds."""
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
