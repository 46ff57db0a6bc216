"""What docs/operations/backup.md promises: each way to back up, restore and move a state server."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from redis import Redis

from perdure import (
    Client,
    ControllerExecutorFlow,
    Finish,
    RoundContext,
    RunNotFound,
    RunStatus,
    Settings,
    Steps,
    StoreUnavailable,
    command,
    register,
    workflow,
)
from perdure.flows.core.outcomes import Command
from perdure.worker.client.tokens import Tokens
from tests.support.ports import free_port
from tests.support.redis_servers import CrashableServer, available_binaries, server
from tests.support.round_driver import Driver, driving
from tests.support.waits import until

#: Idempotency keys that the payment service has received, one for each call.
PAID: list[str] = []


@register("backup_shop")
class Shop(ControllerExecutorFlow):
    """Pays once, asks a person, and finishes."""

    def decide(self, context: RoundContext) -> Command | Finish:
        steps: list[Command | Finish] = [
            Command("pay"),
            Command("send"),
            Finish("sold"),
        ]
        return steps[len(context.history)]

    @command(idempotent=True)
    def pay(self, context: RoundContext) -> str:
        """Pay."""
        PAID.append(context.idempotency_key)
        return "paid"

    @command(idempotent=True, approval="always")
    def send(self) -> str:
        """Send the parcel."""
        return "sent"


@workflow("backup_nap")
def nap(steps: Steps) -> str:
    """Sleep a moment."""
    steps.sleep(0.3)
    return "awake"


def settings_of(running: CrashableServer, url: str = "") -> Settings:
    return Settings(redis_url=url or running.url, prefix="backup", flow_modules=(__name__,))


@contextmanager
def in_use(running: CrashableServer) -> Iterator[tuple[Client, Driver]]:
    with (
        driving(settings_of(running)) as driver,
        closing(Client(settings=settings_of(running))) as client,
    ):
        yield client, driver


def snapshot(running: CrashableServer, copy: Path) -> None:
    """Take a copy with ``redis-cli --rdb``, and restore it as the page says."""
    ask = ["redis-cli", "-s", str(running.socket), "--rdb", str(copy / "dump.rdb")]
    subprocess.run(ask, check=True, capture_output=True)
    lines = {
        "dir": copy,
        "appendonly": "no",
        "port": 0,
        "unixsocket": copy / "restore.sock",
        "daemonize": "no",
    }
    (copy / "restore.conf").write_text("".join(f"{key} {value}\n" for key, value in lines.items()))
    program = available_binaries()["valkey"]
    process = subprocess.Popen(
        [program, copy / "restore.conf"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    with closing(Redis(unix_socket_path=str(copy / "restore.sock"))) as redis:
        until(lambda: (copy / "restore.sock").exists() and redis.ping(), "the restored server")
        redis.config_set("appendonly", "yes")
        until(lambda: not redis.info("persistence")["aof_rewrite_in_progress"], "the rewrite")
        redis.shutdown(nosave=True)
    process.wait(30)


def append_only_files(running: CrashableServer, copy: Path) -> None:
    """Take a copy of the append-only files."""
    with closing(Redis.from_url(running.url)) as redis:
        redis.config_set("auto-aof-rewrite-percentage", 0)
        until(lambda: not redis.info("persistence")["aof_rewrite_in_progress"], "no rewrite")
        shutil.copytree(running.directory / "appendonlydir", copy / "appendonlydir")
        redis.config_set("auto-aof-rewrite-percentage", 100)


@pytest.fixture
def original() -> Iterator[CrashableServer]:
    with server() as running:
        yield running


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    """The directory of the restored server. Its socket needs a short path."""
    directory = Path(tempfile.mkdtemp(prefix="hf-"))
    yield directory
    shutil.rmtree(directory)


@pytest.fixture(autouse=True)
def nothing_paid() -> None:
    PAID.clear()


@contextmanager
def restored(directory: Path) -> Iterator[CrashableServer]:
    running = CrashableServer(directory, available_binaries()["valkey"])
    running.start()
    try:
        yield running
    finally:
        running.stop()


def play_one(driver: Driver) -> None:
    message = driver.take()
    assert message is not None
    driver.engine.rounds.run(*message)


@pytest.mark.parametrize("back_up", [snapshot, append_only_files])
def test_a_restore_takes_each_run_back_to_the_moment_of_the_backup(
    original: CrashableServer, elsewhere: Path, back_up: Callable[[CrashableServer, Path], None]
) -> None:
    with in_use(original) as (client, driver):
        for run_id in ("asked", "deleted"):
            client.submit("backup_shop", "sell", run_id=run_id)
        driver.play()
        client.resume("deleted", "approve")
        driver.play()
        token = Tokens(client).create("ann", ["read"])
        client.submit("backup_shop", "sell", run_id="paid")
        PAID.clear()
        play_one(driver)  # It decides to pay, and has not paid.
        client.submit("backup_shop", "sell", run_id="stopped")
        back_up(original, elsewhere)

        driver.play()
        client.request_stop("stopped")
        client.resume("asked", "approve")
        driver.sweep_and_play()
        client.delete("deleted")
        Tokens(client).revoke(token.token.id)
        client.submit("backup_shop", "sell", run_id="later", idempotency_key="order-7")
        assert client.get("asked").status is RunStatus.COMPLETED
        assert client.get("stopped").status is RunStatus.STOPPED
        paid_before = [key for key in PAID if key.startswith("paid")]
        assert len(paid_before) == 1
    original.stop()

    with restored(elsewhere) as copy, in_use(copy) as (client, driver):
        with pytest.raises(RunNotFound):
            client.get("later")
        again = client.submit("backup_shop", "sell", idempotency_key="order-7")
        assert again.id != "later"
        assert client.get("asked").status is RunStatus.INTERRUPTED
        assert client.get("deleted").answer == "sold"
        assert client.get("stopped").status is RunStatus.QUEUED
        assert Tokens(client).find(token.text) is not None
        driver.sweep_and_play()
        assert [key for key in PAID if key.startswith("paid")] == paid_before * 2
        for run_id in ("paid", "stopped", "asked"):
            client.resume(run_id, "approve")
        driver.sweep_and_play()
        assert {client.get(run_id).answer for run_id in ("paid", "stopped", "asked")} == {"sold"}


def test_a_timer_that_passed_after_the_backup_is_due_at_once(
    original: CrashableServer, elsewhere: Path
) -> None:
    with in_use(original) as (client, driver):
        client.submit("backup_nap", run_id="nap")
        driver.play()
        append_only_files(original, elsewhere)
        assert driver.play_to_rest("nap").status is RunStatus.COMPLETED  # The time has passed.
    with restored(elsewhere) as copy, in_use(copy) as (client, driver):
        assert client.get("nap").status is RunStatus.RUNNING
        assert driver.play_to_rest("nap").answer == "awake"


def test_a_server_with_append_only_files_ignores_a_snapshot(
    original: CrashableServer, elsewhere: Path
) -> None:
    with in_use(original) as (client, _):
        run = client.submit("backup_shop", "sell")
    ask = ["redis-cli", "-s", str(original.socket), "--rdb", str(elsewhere / "dump.rdb")]
    subprocess.run(ask, check=True, capture_output=True)
    with restored(elsewhere) as copy, in_use(copy) as (client, _), pytest.raises(RunNotFound):
        client.get(run.id)


def test_a_run_that_is_played_on_both_servers_happens_twice_with_the_same_keys(
    original: CrashableServer, elsewhere: Path
) -> None:
    with in_use(original) as (client, driver):
        client.submit("backup_shop", "sell", run_id="twice")
        append_only_files(original, elsewhere)
        driver.play()
        with restored(elsewhere) as copy, in_use(copy) as (other, other_driver):
            other_driver.sweep_and_play()
            assert len(PAID) == 2 and len(set(PAID)) == 1
            client.resume("twice", "approve")
            driver.play()
            assert client.get("twice").status is RunStatus.COMPLETED
            assert other.get("twice").status is RunStatus.INTERRUPTED  # Asked there, too.


def test_a_move_by_a_replica_loses_nothing(original: CrashableServer, elsewhere: Path) -> None:
    port = free_port()
    with (
        restored(elsewhere) as new,
        closing(Redis.from_url(original.url)) as old_redis,
        closing(Redis.from_url(new.url)) as new_redis,
        in_use(original) as (client, driver),
    ):
        old_redis.config_set("bind", "127.0.0.1")
        old_redis.config_set("port", port)
        client.submit("backup_shop", "sell", run_id="before")
        driver.play()
        new_redis.replicaof("127.0.0.1", port)
        until(lambda: new_redis.info("replication")["master_link_status"] == "up", "the replica")
        client.submit("backup_shop", "sell", run_id="during")
        old_redis.client_pause(600_000, all=False)  # only writes
        hasty = f"{original.url}&socket_timeout=0.2"
        with (
            closing(Client(settings=settings_of(original, hasty))) as waiting,
            pytest.raises(StoreUnavailable),
        ):
            waiting.submit("backup_shop", "sell", run_id="late")
        until(
            lambda: (
                new_redis.info("replication")["slave_repl_offset"]
                == old_redis.info("replication")["master_repl_offset"]
            ),
            "the replica to have everything",
        )
        new_redis.replicaof("NO", "ONE")
        original.kill()
        with in_use(new) as (moved, moved_driver):
            moved_driver.sweep_and_play()
            for run_id in ("before", "during"):
                moved.resume(run_id, "approve")
            moved_driver.sweep_and_play()
            assert [moved.get(run_id).answer for run_id in ("before", "during")] == ["sold"] * 2
            assert len(PAID) == len(set(PAID)) == 2
