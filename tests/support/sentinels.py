"""Three servers that three Sentinels watch over, on loopback: real processes, and ways to take the
master away.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis

from tests.support.ports import free_ports
from tests.support.redis_servers import available_binaries, until

MASTER = "perdure"
#: How long the master may be silent until a Sentinel takes it for dead (ms); Redis' own default is
#: 30 s.
DOWN_AFTER = 2000


class Watched:
    """The servers by port, the Sentinels by port, and the master according to them.

    Args:
        password: the servers'; None for none.
        servers, sentinels: how many; without Sentinels the first server is the master for ever.
        settings: of every server, beside the defaults of a durable one on loopback. A ``_`` in a
            name stands for ``-``.
    """

    def __init__(
        self,
        room: Path,
        binary: Path,
        password: str | None,
        servers: int,
        sentinels: int,
        **settings: str,
    ) -> None:
        self._room, self._binary, self._password, self._settings = (
            room,
            binary,
            password,
            {name.replace("_", "-"): value for name, value in settings.items()},
        )
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        ports = free_ports(servers + sentinels)  # in one call, so that all differ
        self.servers, self.sentinels = ports[:servers], ports[servers:]

    @property
    def url(self) -> str:
        """As Perdure spells it."""
        user = f":{self._password}@" if self._password else ""
        return f"redis+sentinel://{user}{','.join(f'127.0.0.1:{port}' for port in self.sentinels)}/{MASTER}/0"

    def start(self) -> None:
        """Start everything, and wait until the Sentinels know all servers and one another."""
        for port in self.servers:
            self.start_server(port, None if port == self.servers[0] else self.servers[0])
        until(
            lambda: len(self.following(self.servers[0])) == len(self.servers) - 1,
            "replicas that follow",
            30,
        )
        for port in self.sentinels:
            self._start_sentinel(port)
        until(self.settled, "Sentinels that know all there is", 30)

    def start_server(self, port: int, master: int | None) -> None:
        """Start a server, on the data it had."""
        folder = self._room / str(port)
        folder.mkdir(exist_ok=True)
        settings = {
            "port": str(port), "bind": "127.0.0.1", "dir": str(folder), "save": '""', "appendonly": "yes", "appendfsync": "everysec",
            "maxmemory-policy": "noeviction", "repl-diskless-sync-delay": "0", "repl-timeout": "10", **self._settings,
        }  # fmt: skip
        if self._password:
            settings |= {"requirepass": self._password, "masterauth": self._password}
        if master is not None:
            settings["replicaof"] = f"127.0.0.1 {master}"
        conf = folder / "server.conf"  # a file: Sentinels have the servers rewrite it
        conf.write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
        self._launch(port, str(conf))

    def _start_sentinel(self, port: int) -> None:
        folder = self._room / str(port)
        folder.mkdir()
        lines = [
            f"port {port}", "bind 127.0.0.1", f"dir {folder}", f"sentinel monitor {MASTER} 127.0.0.1 {self.servers[0]} 2",
            f"sentinel down-after-milliseconds {MASTER} {DOWN_AFTER}", f"sentinel failover-timeout {MASTER} 6000",
            *([f"sentinel auth-pass {MASTER} {self._password}"] if self._password else []),
        ]  # fmt: skip
        conf = folder / "sentinel.conf"
        conf.write_text("\n".join(lines) + "\n")
        self._launch(port, str(conf), "--sentinel")

    def _launch(self, port: int, *arguments: str) -> None:
        self._running[port] = subprocess.Popen(
            [self._binary, *arguments, "--logfile", str(self._room / f"{port}.log")],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        until(lambda: self._answers(port), f"an answer on port {port}", 30)

    @contextmanager
    def client(self, port: int) -> Iterator[redis.Redis]:
        """Open a client of this very server or Sentinel."""
        password = self._password if port in self.servers else None
        with redis.Redis(
            "127.0.0.1", port, password=password, decode_responses=True, socket_timeout=2
        ) as made:
            yield made

    def _answers(self, port: int) -> bool:
        with self.client(port) as client:
            try:
                return bool(client.ping())
            except redis.ConnectionError:
                return False

    def following(self, port: int) -> list[int]:
        """Return the replicas that are in step with this server by its own report."""
        with self.client(port) as client:
            told = client.info("replication")
        slaves = [
            told[name] for name in told if name.startswith("slave") and isinstance(told[name], dict)
        ]
        return [int(slave["port"]) for slave in slaves if slave["state"] == "online"]

    def settled(self) -> bool:
        """Return whether all Sentinels know all servers and each other."""
        for port in self.sentinels:
            with self.client(port) as client:
                told = client.sentinel_masters()[MASTER]
            if (told["num-slaves"], told["num-other-sentinels"]) != (
                len(self.servers) - 1,
                len(self.sentinels) - 1,
            ):
                return False
        return True

    def master(self) -> int:
        """Return the master's port, as most Sentinels know it."""
        named = []
        for port in self.sentinels:
            with self.client(port) as client:
                named.append(
                    int(client.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER)[1])
                )
        return max(named, key=named.count)

    def signal(self, port: int, number: int) -> None:
        """Send a signal to a server or Sentinel."""
        self._running[port].send_signal(number)

    def kill(self, port: int) -> None:
        """Kill it with SIGKILL, and wait for its end."""
        self._running[port].kill()
        self._running[port].wait(10)

    def ended(self, port: int) -> bool:
        """Return whether it does not run."""
        return self._running[port].poll() is not None

    def well(self) -> bool:
        """Return whether no Sentinel takes any server for dead, nor waits for the end of a
        failover.
        """
        for port in self.sentinels:
            with self.client(port) as client:
                servers = [client.sentinel_master(MASTER), *client.sentinel_slaves(MASTER)]
            if any(
                told["is_sdown"] or told["is_odown"] or "failover" in told["flags"]
                for told in servers
            ):
                return False
        return True

    def elections(self) -> int:
        """Return the number of the Sentinels' agreed failovers."""
        with self.client(self.sentinels[0]) as client:
            return int(client.sentinel_master(MASTER)["config-epoch"])

    def another_master(self, old: int) -> int:
        """Wait until the Sentinels have made another server the master; its port."""
        until(lambda: self.master() != old and self._is_master(self.master()), "a failover", 60)
        return self.master()

    def _is_master(self, port: int) -> bool:
        with self.client(port) as client:
            try:
                return bool(client.info("replication")["role"] == "master")
            except redis.ConnectionError:
                return False

    def close(self) -> None:
        for process in self._running.values():
            if process.poll() is None:
                os.kill(process.pid, signal.SIGKILL)
            process.wait(10)


@contextmanager
def watched(
    binary: str = "valkey",
    password: str | None = None,
    servers: int = 3,
    sentinels: int = 3,
    **settings: str,
) -> Iterator[Watched]:
    """Start separate servers and Sentinels, removed afterwards.

    ``settings`` are the servers'.
    """
    room = Path(tempfile.mkdtemp(prefix="hf-s-"))
    made = Watched(room, available_binaries()[binary], password, servers, sentinels, **settings)
    try:
        made.start()
        yield made
    finally:
        made.close()
        shutil.rmtree(room)
