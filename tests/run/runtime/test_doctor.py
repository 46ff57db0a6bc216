"""The doctor: each row is produced by a real server or a real app in that condition."""

from __future__ import annotations

import subprocess
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import redis

from perdure import Client, Settings
from perdure.worker.app import engine_of, make_app
from perdure.worker.doctor import Level, examine
from perdure.worker.doctor.app_checks import app_findings
from perdure.worker.doctor.default_server import unsafe_because
from perdure.worker.runtime.startup_checks import check_before_start, why_no_rounds
from perdure.worker.store import StoreUnavailable
from tests.support.command_line import CommandLine
from tests.support.ports import free_port
from tests.support.redis_servers import CrashableServer, server, until
from tests.support.reply_proxy import server_that_says
from tests.support.spoiled_servers import (
    PREFIX,
    hidden,
    only,
    own_server,
    row,
    rows,
    settings,
    spoil,
    without_disk,
)

__all__ = ["hidden", "own_server", "settings", "spoil"]


def test_the_embedded_server_is_well_but_for_its_fsync_and_its_missing_limit(
    settings: Settings,
) -> None:
    found = rows(settings)
    assert (
        only(found, Level.WARNING) == ["fsync", "maxmemory"]
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
    port = free_port()
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
    port = free_port()
    spoil.config_set("port", port)
    levels = {
        host: row(
            settings.model_copy(update={"redis_url": f"redis://{host}:{port}/0"}), "connection"
        )
        for host in ("0.0.0.0", "127.0.0.1")
    }
    assert levels["127.0.0.1"].level is Level.OK
    assert levels["0.0.0.0"].level is Level.WARNING and "rediss://" in levels["0.0.0.0"].remedy


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
        "maxmemory",
    ]
    assert only(found, Level.UNKNOWN) == unknown and not only(found, Level.REFUSED)
    assert all(found[check].remedy for check in unknown)
    assert "does not report" in (unsafe_because(hidden.redis_url or "", hidden) or "")
    spoil.execute_command("ACL", "SETUSER", "managed", "+info")
    found = rows(hidden)  # INFO has the value that CONFIG hides
    assert (
        found["eviction-policy"].level is Level.OK and found["append-only-file"].level is Level.OK
    )
    spoil.execute_command("ACL", "SETUSER", "managed", "-time")
    assert row(hidden, "clock").level is Level.UNKNOWN


def test_an_app_that_is_set_as_it_should_be_is_well(settings: Settings) -> None:
    client = Client(settings=settings)
    assert {finding.level for finding in app_findings(client._connection.app, own=True)} == {
        Level.OK
    }
    client.close()


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


def test_a_server_without_maxmemory_is_told(settings: Settings, spoil: redis.Redis) -> None:
    spoil.config_set("maxmemory", "0")
    found = row(settings, "maxmemory")
    assert found.level is Level.WARNING and "is killed" in found.sentence
    assert "CONFIG SET maxmemory" in found.remedy
    spoil.config_set("maxmemory", "100mb")
    found = row(settings, "maxmemory")
    assert found.level is Level.OK and "104.9 MB" in found.sentence


def test_too_few_replicas_for_writes_are_told(settings: Settings, spoil: redis.Redis) -> None:
    assert row(settings, "writes").level is Level.OK
    spoil.config_set("min-replicas-to-write", "1")
    found = row(settings, "writes")
    assert found.level is Level.REFUSED and "min-replicas-to-write is 1" in found.sentence


def test_with_a_full_disk_commands_name_the_disk_and_reads_are_answered(tmp_path: Path) -> None:
    with without_disk() as full:
        perdure = CommandLine(tmp_path, Settings(redis_url=full.url, prefix=PREFIX))
        doctor, submit = perdure("doctor"), perdure("submit", "countdown", "x")
        why, runs = perdure("why", "no-such-run"), perdure("list")
    for told in (doctor, submit, why, runs):
        assert "MISCONF" in told.err and "It cannot write to its disk" in told.err
        assert "Is it running" not in told.err and "answers at" not in told.err
    assert doctor.code == 1 and "the server takes no work now, and runs wait" in doctor.err
    assert (submit.code, why.code, runs.code) == (7, 3, 0)


def test_a_worker_starts_while_the_server_refuses_writes(tmp_path: Path) -> None:
    with without_disk() as full:
        settings = Settings(redis_url=full.url, prefix=PREFIX)
        with closing(engine_of(make_app(settings))) as engine:
            check_before_start(engine)
            assert why_no_rounds(engine) is None
