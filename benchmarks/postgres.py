"""The PostgreSQL of a benchmark: a new cluster in a temporary directory.

It has the settings that initdb makes, so every commit is synced to the disk. Only the number of
connections is higher, and it listens only on a unix socket.
"""

from __future__ import annotations

import getpass
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.processes import process, until

#: Where Debian installs the programs that are not on PATH.
DEBIAN = Path("/usr/lib/postgresql")
#: The server does not run as root. Then it runs as one of these users.
USERS = ("postgres", "nobody")
CONNECTIONS = 200


@dataclass(frozen=True)
class Postgres:
    """A running server: its main process, and the directory of its socket."""

    pid: int
    socket: Path
    user: str

    def url(self, driver: str = "postgresql") -> str:
        """Return the URL of the initial database."""
        return f"{driver}://{self.user}@/postgres?host={self.socket}"


def missing() -> str | None:
    """Return why PostgreSQL cannot start. The result is None if it can."""
    if _programs() is None:
        return (
            "PostgreSQL is missing: neither initdb nor postgres is on PATH "
            "(on Debian and Ubuntu: apt install postgresql)"
        )
    if os.geteuid() == 0 and _other_user() is None:
        return f"PostgreSQL does not run as root, and there is no user {' or '.join(USERS)}"
    return None


@contextmanager
def postgres() -> Iterator[Postgres]:
    """Start a new server. Stop and remove it afterwards."""
    programs = _programs()
    assert programs is not None
    user = _other_user() if os.geteuid() == 0 else None
    directory = Path(tempfile.mkdtemp(prefix="pg-"))
    try:
        if user is not None:
            shutil.chown(directory, user)
        data, name = directory / "data", user or getpass.getuser()
        make: list[str | Path] = [
            programs / "initdb",
            "--pgdata",
            data,
            "--username",
            name,
            "--auth",
            "trust",
            "--encoding",
            "UTF8",
            "--locale",
            "C",
        ]
        subprocess.run(make, user=user, cwd=directory, check=True, stdout=subprocess.DEVNULL)
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": directory,
            "max_connections": CONNECTIONS,
        }
        options = (part for key, value in settings.items() for part in ("-c", f"{key}={value}"))
        command: list[str | Path] = [programs / "postgres", "-D", data, *options]
        with process(command, user=user) as server:
            running = Postgres(server.pid, directory, name)
            until(lambda: _ready(running), "PostgreSQL", 30, every=0.02)
            try:
                yield running
            finally:
                server.send_signal(
                    signal.SIGINT
                )  # a fast shutdown: killed, it would leave its shared memory behind
                server.wait(60)
    finally:
        shutil.rmtree(directory)


def server() -> Path | None:
    """Return the server's program. The result is None if it is not installed."""
    programs = _programs()
    return programs / "postgres" if programs is not None else None


def _ready(server: Postgres) -> bool:
    import psycopg

    try:
        psycopg.connect(server.url()).close()
    except psycopg.OperationalError:
        return False
    return True


def _programs() -> Path | None:
    """Return the directory of initdb and postgres: Debian's newest, else that on PATH."""
    versions = sorted(
        (place for place in DEBIAN.glob("*/bin") if (place / "initdb").exists()),
        key=lambda place: int(place.parent.name),
    )
    on_path = shutil.which("initdb")
    found = versions[-1] if versions else Path(on_path).resolve().parent if on_path else None
    return found if found is not None and (found / "postgres").exists() else None


def _other_user() -> str | None:
    known = {entry.pw_name for entry in pwd.getpwall()}
    return next((name for name in USERS if name in known), None)
