"""A server with the users of config/redis.acl, set up as an operator does, and their logins."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import redis

from tests.support.redis_servers import available_binaries, until
from tests.support.workers import ROOT

ACL = ROOT / "config" / "redis.acl"
ROLES = ("producer", "worker", "reader", "admin")


@dataclass(frozen=True)
class LockedServer:
    """A server that lets in the users of config/redis.acl, and no others."""

    socket: Path
    binary: str

    def url(self, user: str) -> str:
        """Return a user's login; ``operator`` may do everything."""
        return f"unix://{user}:{password(user)}@{self.socket}?db=0"

    def login(self, user: str) -> redis.Redis:
        """Return a client that gives up at once."""
        return redis.Redis.from_url(
            self.url(user), decode_responses=True, retry=None, socket_timeout=5
        )


def password(user: str) -> str:
    return f"the-{user}-pass"


def users() -> str:
    """Return the file as an operator completes it: all but ``default`` on, with a password."""
    lines = [line for line in ACL.read_text().splitlines() if line]
    return "\n".join(
        line.replace(" off resetpass", f" on >{password(line.split()[1])}")
        if "default" not in line
        else line
        for line in lines
    )


def _accepts(path: Path) -> bool:
    """Return whether a server listens there. Its file exists a moment before."""
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(path)) == 0


@contextmanager
def locked_server(binary: str) -> Iterator[LockedServer]:
    """Start a separate server; remove it and its data afterwards."""
    directory = Path(tempfile.mkdtemp(prefix="hf-acl-"))
    (directory / "users.acl").write_text(users())
    options = {
        "dir": directory,
        "port": 0,
        "unixsocket": directory / "s.sock",
        "aclfile": directory / "users.acl",
    }
    options |= {"appendonly": "yes", "save": "", "logfile": directory / "log"}
    # Features that servers disable by default: here the users' permissions alone are to refuse
    # them.
    options |= {"enable-debug-command": "yes", "enable-module-command": "yes"}
    arguments = [str(part) for name, value in options.items() for part in (f"--{name}", value)]
    process = subprocess.Popen([available_binaries()[binary], *arguments], stdin=subprocess.DEVNULL)
    running = LockedServer(directory / "s.sock", binary)
    try:
        until(lambda: _accepts(running.socket) or process.poll() is not None, "the server's socket")
        assert process.poll() is None, (directory / "log").read_text()
        yield running
    finally:
        process.terminate()
        process.wait(10)
        shutil.rmtree(directory)


@pytest.fixture(scope="module", params=["valkey", pytest.param("redis", marks=pytest.mark.slow)])
def locked(request: pytest.FixtureRequest) -> Iterator[LockedServer]:
    """A locked server of each kind, for the tests of a module."""
    with locked_server(request.param) as running:
        yield running
