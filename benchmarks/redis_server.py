"""The Redis of a benchmark: an embedded server in a temporary directory, and its statistics."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis

from perdure.worker.embedded import EmbeddedServer
from perdure.worker.embedded.launch import Fsync


class RedisServer:
    """A running server.

    Attributes:
        redis: A client of its first database.
        url: Its URL, as Perdure takes it.
    """

    def __init__(self, server: EmbeddedServer) -> None:
        self.url = server.url
        self.redis: redis.Redis = redis.Redis.from_url(server.url, decode_responses=True)
        self.pid: int = self.redis.info("server")["process_id"]

    def database(self, number: int) -> str:
        """Return the URL of another database of the server."""
        return self.url.replace("db=0", f"db={number}")

    def work(self) -> Work:
        """Return its work since its start."""
        info: dict[str, Any] = self.redis.info("everything")
        commands = {
            name.removeprefix("cmdstat_"): value
            for name, value in info.items()
            if name.startswith("cmdstat_")
        }
        scripts = [
            value for name, value in commands.items() if name in ("eval", "evalsha", "fcall")
        ]
        return Work(
            cpu=info["used_cpu_user"] + info["used_cpu_sys"],
            commands={
                name: value["calls"]
                for name, value in commands.items()
                if name not in ("info", "monitor")
            },
            script_calls=sum(value["calls"] for value in scripts),
            script_us=sum(value["usec"] for value in scripts),
            received=info["total_net_input_bytes"],
            sent=info["total_net_output_bytes"],
        )


@dataclass(frozen=True)
class Work:
    """The work of a server.

    It has CPU seconds, calls by command (also those inside scripts), scripts with their
    microseconds, and bytes over its connections.
    """

    cpu: float
    commands: dict[str, int]
    script_calls: int
    script_us: int
    received: int
    sent: int

    def since(self, before: Work) -> Work:
        """Return the difference to ``before``."""
        commands = {
            name: calls - before.commands.get(name, 0) for name, calls in self.commands.items()
        }
        return Work(
            self.cpu - before.cpu,
            {name: calls for name, calls in commands.items() if calls},
            self.script_calls - before.script_calls,
            self.script_us - before.script_us,
            self.received - before.received,
            self.sent - before.sent,
        )


def log_size(info: Mapping[str, Any]) -> int:
    """Return the bytes in a server's log of writes.

    They are from the reply of ``INFO everything``. While an earlier sync of the log is still in
    progress, the server keeps new writes in a buffer.
    """
    size: int = info["aof_current_size"] + info["aof_buffer_length"]
    return size


@contextmanager
def redis_server(appendfsync: Fsync = "everysec") -> Iterator[RedisServer]:
    """Start a new server. Stop and remove it afterwards.

    Its log of writes is synced every second, which is Redis's default.
    """
    directory = Path(tempfile.mkdtemp(prefix="hf-"))
    server = EmbeddedServer(directory, appendfsync=appendfsync)
    try:
        server.start()
        running = RedisServer(server)
        try:
            yield running
        finally:
            running.redis.close()
    finally:
        server.stop()
        shutil.rmtree(directory)
