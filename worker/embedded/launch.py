"""Launch the server's program as a daemon that keeps the lock on its data."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Literal

from worker.embedded.binary import EmbeddedServerError
from worker.embedded.files import ServerFiles

#: When the server's log of writes is forced to the disk.
Fsync = Literal["everysec", "always", "no"]

_PATIENCE_SECONDS = 10.0


def launch(binary: Path, files: ServerFiles, appendfsync: Fsync, lock: int) -> None:
    """Run `binary` on the data of `files`; returns at once, the server may still be starting.

    Args:
        binary: the server's program.
        files: its directory; the remains of a dead server there are removed.
        appendfsync: as in the server's configuration.
        lock: descriptor of the held server lock; the server inherits it and holds the lock until it ends.

    Raises:
        EmbeddedServerError: the program cannot be run or refuses its configuration.
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
        # Commands, not a snapshot, in the base file: Redis 7.0 then reads what Valkey 9 wrote, so the program may change.
        "aof-use-rdb-preamble": "no",
        # A stream of few events, as most runs have, takes one node, and of a node the server takes all at once: 4 KB, were it not told.
        "stream-node-max-bytes": "384",
        # The hash of a run at rest, whose own values are mostly short, then takes a third (worker/store/lua/moving.lua).
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
            f"The server program {binary} cannot be run: {error}. Give another one, or the URL of a server."
        ) from error
    if launched.returncode != 0:
        said = launched.stdout.decode(errors="replace").strip()
        raise EmbeddedServerError(
            f"The server program {binary} refused to start (exit code {launched.returncode}): {said or 'it said nothing'}"
        )
