"""The doctor: each row produced by a real server or a real app in that condition, and what workers do about it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis

from perdure import Client, Settings
from perdure.worker.doctor import Finding, Level, examine
from perdure.worker.doctor.app_checks import app_findings
from perdure.worker.doctor.default_server import unsafe_because
from perdure.worker.store import StoreUnavailable
from tests.support.command_line import ROOT, CommandLine
from tests.support.os_processes import end_all
from tests.support.redis_servers import CrashableServer, available_binaries, server, until
from tests.support.reply_proxy import server_that_says
from tests.support.workers import workers

PREFIX = "doctor"


@pytest.fixture(scope="module", params=["valkey", pytest.param("redis", marks=pytest.mark.slow)])
def own_server(request: pytest.FixtureRequest) -> Iterator[CrashableServer]:
    """A server that this module may spoil; each test mends what it spoils."""
    if request.param not in available_binaries() and "CI" not in os.environ:
        pytest.skip(f"this machine has no {request.param}-server")
    with server(request.param, "everysec") as running:
        yield running


@pytest.fixture
def settings(own_server: CrashableServer) -> Settings:
    return Settings(redis_url=own_server.url, prefix=PREFIX)


@pytest.fixture
def spoil(own_server: CrashableServer) -> Iterator[redis.Redis]:
    """A connection to change the server with; its configuration is put back afterwards, and its data removed."""
    with redis.Redis.from_url(own_server.url, decode_responses=True) as client:
        names = (
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
    """What the doctor says, by check."""
    client = Client(settings=settings)
    try:
        return {finding.check: finding for finding in client.doctor()}
    finally:
        client.close()


def row(settings: Settings, check: str) -> Finding:
    return rows(settings)[check]


def only(found: dict[str, Finding], level: Level) -> list[str]:
    return [check for check, finding in found.items() if finding.level is level]


def test_the_embedded_server_is_well_but_for_its_fsync(settings: Settings) -> None:
    found = rows(settings)
    assert (
        only(found, Level.WARNING) == ["fsync"]
        and not only(found, Level.REFUSED)
        and not only(found, Level.UNKNOWN)
    )
    assert "last second or two" in found["fsync"].sentence and "always" in found["fsync"].remedy


def test_with_appendfsync_always_nothing_is_said_of_it(
    settings: Settings, spoil: redis.Redis
) -> None:
    spoil.config_set("appendfsync", "always")
    assert row(settings, "fsync").level is Level.OK
    spoil.config_set("appendfsync", "no")
    assert (
        row(settings, "fsync").level is Level.WARNING
        and "half a minute" in row(settings, "fsync").sentence
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("check", "name", "value"),
    [
        pytest.param("eviction-policy", "maxmemory-policy", "allkeys-lru", marks=pytest.mark.slow),
        ("append-only-file", "appendonly", "no"),
    ],
)
def test_a_server_that_does_not_keep_runs_is_refused_by_doctor_and_workers(
    settings: Settings, spoil: redis.Redis, tmp_path: Path, check: str, name: str, value: str
) -> None:
    spoil.config_set(name, value)
    found = row(settings, check)
    assert found.level is Level.REFUSED and f"CONFIG SET {name}" in found.remedy
    assert (unsafe_because(settings.redis_url or "", settings) or "").count(found.sentence) == 1
    perdure = CommandLine(tmp_path, settings)
    told = perdure("doctor", "--json")
    assert told.code == 1 and check in told.err
    assert [line["check"] for line in told.json if line["level"] == "refused"] == [check]
    assert f"refused  {check}: {found.sentence}" in perdure("doctor").out
    for worker in (perdure("worker", "--role", "controller"), _celery(settings)):
        assert worker.code == 1 and found.sentence in worker.err and found.remedy in worker.err, (
            worker
        )
    assert spoil.exists(f"{PREFIX}:workers") == 0


def test_a_server_that_is_too_old_is_refused(
    settings: Settings, own_server: CrashableServer, tmp_path: Path
) -> None:
    with redis.Redis.from_url(own_server.url, decode_responses=True) as client:
        info: Any = client.info("server")
    kind = "valkey" if "valkey_version" in info else "redis"
    real = str(info[f"{kind}_version"]).encode()
    older = (b"7.2.9999" if kind == "valkey" else b"6.2.9999")[: len(real)]
    words = {b"%s_version:%s" % (kind.encode(), real): b"%s_version:%s" % (kind.encode(), older)}
    with server_that_says(_socket(own_server), tmp_path / "old.sock", words) as url:
        found = row(settings.model_copy(update={"redis_url": url}), "server-version")
    assert (
        found.level is Level.REFUSED
        and older.decode() in found.sentence
        and "Upgrade" in found.remedy
    )
    assert row(settings, "server-version").level is Level.OK


def test_a_disk_that_could_not_follow_is_told(
    settings: Settings, own_server: CrashableServer, tmp_path: Path
) -> None:
    with server_that_says(
        _socket(own_server),
        tmp_path / "slow.sock",
        {b"aof_delayed_fsync:0": b"aof_delayed_fsync:7"},
    ) as url:
        found = row(settings.model_copy(update={"redis_url": url}), "delayed-fsyncs")
    assert found.level is Level.WARNING and "7 times" in found.sentence and "disk" in found.remedy
    assert row(settings, "delayed-fsyncs").level is Level.OK


def test_a_cluster_is_refused(own_server: CrashableServer, tmp_path: Path) -> None:
    there = tmp_path / "c.sock"
    options = {
        "port": 0,
        "unixsocket": there,
        "dir": tmp_path,
        "cluster-enabled": "yes",
        "appendonly": "yes",
        "save": "",
    }
    arguments = [str(part) for name, value in options.items() for part in (f"--{name}", value)]
    with subprocess.Popen([_program(own_server), *arguments], stdout=subprocess.DEVNULL) as process:
        try:
            settings = Settings(redis_url=f"unix://{there}", prefix=PREFIX)
            until(lambda: _answers(settings), "the cluster's first node")
            found = rows(settings)
        finally:
            process.terminate()
    assert only(found, Level.REFUSED) == ["cluster"] and "cluster" in found["cluster"].remedy
    assert found["dead-letters"].level is Level.UNKNOWN  # it answers no question about keys


@pytest.mark.parametrize(("ahead", "word"), [(2.5, "behind"), (-2.5, "ahead of")])
def test_a_clock_that_is_off_by_more_than_half_a_lease_is_refused(
    settings: Settings, ahead: float, word: str
) -> None:
    client = Client(settings=settings)
    findings = {
        finding.check: finding
        for finding in examine(client._connection, lambda: time.time() + ahead)
    }
    within = {
        finding.check: finding
        for finding in examine(client._connection, lambda: time.time() + ahead * 0.6)
    }
    client.close()
    assert (
        findings["clock"].level is Level.REFUSED
        and word in findings["clock"].sentence
        and "NTP" in findings["clock"].remedy
    )
    assert within["clock"].level is Level.OK


def test_replicas_without_a_least_number_of_them_are_told(
    settings: Settings, spoil: redis.Redis, own_server: CrashableServer
) -> None:
    spoil.config_set("bind", "127.0.0.1")
    port = _free_port()
    spoil.config_set("port", port)
    kind = _program(own_server).name.removesuffix("-server")
    with server(kind, "everysec") as follower, redis.Redis.from_url(follower.url) as client:
        client.replicaof("127.0.0.1", str(port))
        until(lambda: spoil.info("replication")["connected_slaves"] == 1, "the replica")
        assert row(settings, "replicas").level is Level.WARNING
        assert "min-replicas-to-write 1" in row(settings, "replicas").remedy
        spoil.config_set("min-replicas-to-write", 1)
        assert row(settings, "replicas").level is Level.OK
        at_follower = row(settings.model_copy(update={"redis_url": follower.url}), "replicas")
        assert at_follower.level is Level.WARNING and "itself a replica" in at_follower.sentence


def test_a_plain_connection_that_is_not_loopback_is_told(
    settings: Settings, spoil: redis.Redis
) -> None:
    """0.0.0.0 reaches the server that listens on loopback, and is no loopback address."""
    spoil.config_set("bind", "127.0.0.1")
    port = _free_port()
    spoil.config_set("port", port)
    levels = {
        host: row(
            settings.model_copy(update={"redis_url": f"redis://{host}:{port}/0"}), "connection"
        )
        for host in ("0.0.0.0", "127.0.0.1")
    }
    assert levels["127.0.0.1"].level is Level.OK
    assert levels["0.0.0.0"].level is Level.WARNING and "rediss://" in levels["0.0.0.0"].remedy


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


def test_what_a_managed_server_hides_is_unknown(hidden: Settings, spoil: redis.Redis) -> None:
    found = rows(hidden)
    unknown = [
        "server-version",
        "cluster",
        "eviction-policy",
        "append-only-file",
        "memory",
        "fsync",
        "delayed-fsyncs",
        "replicas",
    ]
    assert only(found, Level.UNKNOWN) == unknown and not only(found, Level.REFUSED)
    assert all(found[check].remedy for check in unknown)
    assert "does not report" in (unsafe_because(hidden.redis_url or "", hidden) or "")
    spoil.execute_command("ACL", "SETUSER", "managed", "+info")
    found = rows(hidden)  # INFO tells what CONFIG does not
    assert (
        found["eviction-policy"].level is Level.OK and found["append-only-file"].level is Level.OK
    )
    spoil.execute_command("ACL", "SETUSER", "managed", "-time")
    assert row(hidden, "clock").level is Level.UNKNOWN


def test_a_worker_starts_on_a_server_that_hides_its_settings(hidden: Settings) -> None:
    with workers(1, hidden) as [worker]:
        assert worker.name is not None


@pytest.mark.slow
@pytest.mark.parametrize(
    "check",
    [
        "prefetch",
        *(pytest.param(check, marks=pytest.mark.slow) for check in ("pickle", "remote-control")),
    ],
)
def test_what_an_app_sets_is_refused_on_our_own_and_a_warning_on_somebody_elses(
    settings: Settings, spoil: redis.Redis, check: str
) -> None:
    refused = _celery(settings, app="tests.support.apps.misconfigured_app", APP_SETS=check)
    assert refused.code == 1 and f"{check}: " in refused.err, refused
    with _worker(
        settings, "tests.support.apps.misconfigured_app", APP_SETS=check, APP_IS="theirs"
    ) as process:
        client = Client(settings=settings)
        until(lambda: bool(client.workers()) or process.poll() is not None, "the worker to start")
        client.close()
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=30)
    assert f"{check}: " in said and "WARNING" in said


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "queue-names-steps",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("accept-content", "queue-names")),
    ],
)
def test_an_app_whose_workers_could_take_no_round_is_refused(
    settings: Settings, spoil: redis.Redis, name: str
) -> None:
    check = f"{name.removesuffix('-steps')}: "
    ended = _celery(
        settings, app="tests.support.apps.misconfigured_app", APP_SETS=name, APP_IS="own"
    )
    assert ended.code == 1 and check in ended.err, ended
    # Somebody else's app goes on with its own tasks, and its worker says why it plays no rounds.
    with _worker(
        settings, "tests.support.apps.misconfigured_app", APP_SETS=name, APP_IS="theirs"
    ) as process:
        assert process.stderr is not None
        line = next(line for line in process.stderr if "plays no rounds" in line)
        assert process.poll() is None
        process.kill()
    assert check in line
    assert spoil.exists(f"{PREFIX}:workers") == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "check", ["always-eager", pytest.param("prefetch-multiplier", marks=pytest.mark.slow)]
)
def test_what_an_app_sets_at_the_cost_of_rounds_is_a_warning(
    settings: Settings, spoil: redis.Redis, check: str
) -> None:
    with _worker(
        settings, "tests.support.apps.misconfigured_app", APP_SETS=check, APP_IS="theirs"
    ) as process:
        client = Client(settings=settings)
        until(lambda: bool(client.workers()) or process.poll() is not None, "the worker to start")
        client.close()
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=30)
    assert f"{check}: " in said and "WARNING" in said and process.returncode == 0


def test_an_app_that_is_set_as_it_should_be_is_well(settings: Settings) -> None:
    client = Client(settings=settings)
    assert {finding.level for finding in app_findings(client._connection.app, own=True)} == {
        Level.OK
    }
    client.close()


def test_dead_letters_and_damaged_runs_are_told(settings: Settings, spoil: redis.Redis) -> None:
    assert {rows(settings)[check].level for check in ("dead-letters", "quarantined-runs")} == {
        Level.OK
    }
    settings = settings.model_copy(update={"flow_modules": ("tests.support.example_flows.rings",)})
    client = Client(settings=settings)
    run = client.submit("ledger", "g", {"rounds": 1})
    spoil.hset(client._store.keys.run(run.id), "goal", "another one")
    spoil.lpush(client._store.keys.queue("controller"), "not a message")
    with workers(1, settings):
        until(
            lambda: client.get(run.id).status.ended and bool(client._store.dead_letters()),
            "both to be found",
        )
    client.close()
    found = rows(settings)
    assert (
        found["quarantined-runs"].level is Level.WARNING
        and run.id in found["quarantined-runs"].sentence
    )
    assert (
        found["dead-letters"].level is Level.WARNING
        and f"{PREFIX}:dead" in found["dead-letters"].remedy
    )


@pytest.mark.slow
def test_a_flow_that_cannot_be_loaded_is_told(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "config" / "flows").mkdir(parents=True)
    (tmp_path / "config" / "flows" / "broken.yaml").write_text("name: broken\nnonsense: 1\n")
    told = CommandLine(tmp_path, settings)("doctor", "--json")
    [found] = [line for line in told.json if line["check"] == "flows-loaded"]
    assert told.code == 0 and found["level"] == "warning" and "broken.yaml" in found["sentence"]


def test_no_server_is_no_finding(settings: Settings, tmp_path: Path) -> None:
    away = settings.model_copy(update={"redis_url": f"unix://{tmp_path}/nobody.sock"})
    told = CommandLine(tmp_path, away)("doctor")
    assert told.code == 7 and told.out == ""
    client = Client(settings=away)
    with pytest.raises(StoreUnavailable):
        client.doctor()
    client.close()


# What these tests start and ask.


class _Ended:
    def __init__(self, code: int, err: str) -> None:
        self.code, self.err = code, err

    def __repr__(self) -> str:
        return f"exit code {self.code}: {self.err}"


@contextmanager
def _worker(
    settings: Settings, app: str = "perdure.app", **variables: str
) -> Iterator[subprocess.Popen[str]]:
    """``celery -A APP worker``, killed afterwards if it has not ended."""
    assert settings.redis_url is not None
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PERDURE_", "CELERY_"))
    }
    environment |= {"PERDURE_REDIS_URL": settings.redis_url, "PERDURE_PREFIX": settings.prefix}
    environment |= {
        "C_FORCE_ROOT": "1",
        **variables,
    }  # else Celery itself refuses pickle, to root alone
    command = [
        sys.executable,
        "-m",
        "celery",
        "-A",
        app,
        "worker",
        "--pool",
        "threads",
        "--without-gossip",
        "--without-mingle",
    ]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            end_all(process)


def _celery(settings: Settings, app: str = "perdure.app", **variables: str) -> _Ended:
    """That command, run to its end."""
    with _worker(settings, app, **variables) as process:
        _, said = process.communicate(timeout=30)
        return _Ended(process.returncode, said)


def _answers(settings: Settings) -> bool:
    try:
        rows(settings)
    except StoreUnavailable:
        return False
    return True


def _socket(running: CrashableServer) -> Path:
    return Path(running.url.removeprefix("unix://").partition("?")[0])


def _program(running: CrashableServer) -> Path:
    assert running._binary is not None
    return running._binary


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
