"""Start of the embedded server, and a probe that asks whether the server is ready.

The server runs as a daemon that holds the lock on its data. The probe sends raw RESP to the Unix
socket, since only `perdure.worker.store` may import redis.
"""

from __future__ import annotations

import re
import socket
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

from perdure.worker.embedded.binary import EmbeddedServerError
from perdure.worker.embedded.files import ServerFiles


@dataclass(frozen=True)
class ProbeReply:
    """The reply of a Redis or Valkey server to a probe.

    Attributes:
        ready: whether the server serves commands (+PONG).
        loading: whether the server still reads its data (-LOADING).
        pid: the process id that the server reports. None if the reply has no process id, for
            example because the server is too busy.
        program: name, version and path of the server's program, as the server reports them.
    """

    ready: bool
    loading: bool
    pid: int | None
    program: str = ""


def probe(path: Path, timeout: float = 1.0) -> ProbeReply | None:
    """Ask a server whether it is ready, and for its process id.

    Args:
        path: the server's Unix socket.
        timeout: seconds to wait for each part of the reply.

    Returns:
        The reply. None if no server listens on the socket, if the server does not reply in time, or
        if the reply is not RESP.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(timeout)
        try:
            connection.connect(str(path))
            connection.sendall(b"PING\r\nINFO server\r\n")
            with connection.makefile("rb") as replies:
                pong, information = _reply(replies), _reply(replies)
        except (OSError, ValueError):  # ValueError: the reply is not RESP.
            return None
    if not pong:
        return None
    facts = dict(
        re.findall(r"^(\w+):([^\r\n]+)", information.decode(errors="replace"), re.MULTILINE)
    )
    pid = facts.get("process_id", "")
    return ProbeReply(
        ready=pong == b"+PONG",
        loading=pong.startswith(b"-LOADING"),
        pid=int(pid) if pid.isdecimal() else None,
        program=_program(facts),
    )


def _program(facts: Mapping[str, str]) -> str:
    """Return a server's program as text: ``valkey 9.0.1 (/usr/bin/valkey)``.

    Args:
        facts: the fields of the server's INFO. If they have no version, the text is empty.
    """
    name = facts.get("server_name", "redis")
    version = facts.get(f"{name}_version", "")
    path = facts.get("executable", "")
    return " ".join(filter(None, (name, version, f"({path})" if path else ""))) if version else ""


def _reply(replies: BinaryIO) -> bytes:
    """Read one RESP reply of a Redis server: a line, or the body of a bulk string."""
    line = replies.readline().rstrip(b"\r\n")
    if not line.startswith(b"$"):
        return line
    return replies.read(int(line[1:]) + 2)


#: When the server syncs its append-only file to the disk.
Fsync = Literal["everysec", "always", "no"]

_PATIENCE_SECONDS = 10.0


def launch(binary: Path, files: ServerFiles, appendfsync: Fsync, lock: int) -> None:
    """Start the embedded server as a daemon.

    The function returns at once, while the server may still be starting.

    Args:
        binary: the server's program.
        files: the server's files and data. A dead server's pid file and socket are removed.
        appendfsync: the setting of this name in the server's configuration.
        lock: descriptor of the server lock, which the caller holds. The server inherits it, and
            holds the lock until the server ends.

    Raises:
        EmbeddedServerError: the program cannot be run, or rejects its configuration.
    """
    settings: dict[str, object] = {
        "dir": files.directory,
        "port": "0",
        "unixsocket": files.prepare_start(),
        "unixsocketperm": "700",
        "daemonize": "yes",
        "pidfile": files.pid_file,
        "logfile": files.log,
        "save": "",
        "appendonly": "yes",
        "appendfsync": appendfsync,
        "aof-load-truncated": "yes",
        # The base file has commands, not a snapshot. So Redis 7.0 can read the file of Valkey 9,
        # and the program may change.
        "aof-use-rdb-preamble": "no",
        # Most runs have few events, which fit one stream node. The server allocates a whole node at
        # once: 4 KB without this setting.
        "stream-node-max-bytes": "384",
        # The hash of a run at rest, with mostly short values, then needs a third of the memory
        # (worker/store/lua/parts/moves.lua).
        "hash-max-listpack-value": "512",
        "maxmemory": "0",
        "maxmemory-policy": "noeviction",
    }
    arguments = [str(part) for name, value in settings.items() for part in (f"--{name}", value)]
    try:
        launched = subprocess.run(
            [binary, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=files.directory,
            pass_fds=(lock,),
            start_new_session=True,
            umask=0o077,
            timeout=_PATIENCE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EmbeddedServerError(
            f"The server program {binary} cannot be run: {error}. Give another program, "
            "or the URL of a server."
        ) from error
    if launched.returncode != 0:
        output = launched.stdout.decode(errors="replace").strip()
        raise EmbeddedServerError(
            f"The server program {binary} refused to start (exit code "
            f"{launched.returncode}): {output or 'no output'}"
        )
