"""The files of one embedded server, and two locks.

server.lock: locked by the server process, through a descriptor that it inherits from its starter.
The lock is free exactly when no server runs on this data, even if the last server was killed.

owner.lock: locked by the process that may stop the server, while that process lives.

server.pid: the server's process id, written by the server.

server.log: the server's log since its start. server.log.1 is the log of the previous server.

server.address: the path of the server's Unix socket, if that is not server.sock.

appendonlydir/: the data.
"""

from __future__ import annotations

import fcntl
import os
import platform
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from perdure.worker.embedded.binary import EmbeddedServerError

#: Maximum length of a socket's path, in bytes. It works on every system (the limits are 107 on
#: Linux, 103 on macOS).
LONGEST_SOCKET_PATH = 100


def state_directory() -> Path:
    """Return the user's state directory for Perdure, the default for the embedded server's data."""
    if platform.system() == "Darwin":
        return Path.home() / "Library" / "Application Support" / "perdure"
    base = os.environ.get("XDG_STATE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".local" / "state") / "perdure"


def try_lock(path: Path, shared: bool = False) -> int | None:
    """Lock the file `path` without waiting. Create the file if it does not exist.

    Args:
        shared: whether other processes may hold a shared lock at the same time.

    Returns:
        A descriptor, or None if another process holds a lock that excludes this one. The lock lasts
        until every process with a copy of the descriptor has closed its copy or died.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


class ServerFiles:
    """The files of the embedded server that has its data in `directory`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.lock = directory / "server.lock"
        self.owner_lock = directory / "owner.lock"
        self.pid_file = directory / "server.pid"
        self.log = directory / "server.log"
        self.address = directory / "server.address"

    def make(self) -> None:
        """Create the server's directory, readable by this user only.

        Raises:
            EmbeddedServerError: the directory cannot be created, or belongs to another user.
        """
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.directory.chmod(0o700)
        except OSError as error:
            raise EmbeddedServerError(
                f"The embedded server needs a directory of its own at {self.directory}: "
                f"{error.strerror}. Make it writable, or set XDG_STATE_HOME to a writable "
                "directory."
            ) from error

    def pid(self) -> int | None:
        """Return the process id in the server's pid file. That process may have ended.

        None if there is no readable pid file.
        """
        try:
            return int(self.pid_file.read_text())
        except (OSError, ValueError):
            return None

    def socket(self) -> Path:
        """Return the path of the Unix socket on which a running server listens."""
        with suppress(OSError, ValueError):
            recorded = self.address.read_text().strip()
            if recorded:
                return Path(recorded)
        return self.directory / "server.sock"

    def prepare_start(self) -> Path:
        """Prepare the files for the next server, and return the path of its Unix socket.

        The pid file and the socket of a dead server are removed, and its log is renamed to
        server.log.1. If the path of a socket in the directory would be too long, the socket is in a
        temporary directory, and server.address has its path. The caller must hold the server lock.
        """
        for stale in (self.pid_file, self.socket()):
            stale.unlink(missing_ok=True)
        if self.log.exists():
            self.log.replace(self.log.with_name("server.log.1"))
        socket = self.directory / "server.sock"
        if len(os.fsencode(socket)) <= LONGEST_SOCKET_PATH:
            self.address.unlink(missing_ok=True)
            return socket
        if not self._short_and_private(self.socket()):
            socket = _short_directory() / "server.sock"
            written = self.address.with_name("server.address.new")
            written.write_text(str(socket))
            written.replace(self.address)
        return self.socket()

    def clean_up(self) -> None:
        """Remove the files of a server that has stopped, but not its data and log.

        The caller must hold the server lock.
        """
        socket = self.socket()
        self.pid_file.unlink(missing_ok=True)
        socket.unlink(missing_ok=True)
        if socket.parent != self.directory and self._short_and_private(socket):
            self.address.unlink(missing_ok=True)
            with suppress(OSError):  # A directory with other files is not removed.
                socket.parent.rmdir()

    def log_tail(self, lines: int = 12) -> str:
        """Return the last lines of the server's current log.

        If there is no log, or the log is empty, the result is a text that says so.
        """
        try:
            with self.log.open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - 16_384))
                text = log.read().decode(errors="replace")
        except OSError:
            return "(it wrote no log)"
        return "\n".join(text.splitlines()[-lines:]) or "(its log is empty)"

    def _short_and_private(self, socket: Path) -> bool:
        """Return whether a socket's path is short, and only this user may access its directory."""
        try:
            status = socket.parent.lstat()
        except OSError:
            return False
        private = (
            stat.S_ISDIR(status.st_mode)
            and status.st_uid == os.geteuid()
            and not status.st_mode & 0o077
        )
        return private and len(os.fsencode(socket)) <= LONGEST_SOCKET_PATH


def _short_directory() -> Path:
    """Create a temporary directory with a path that is short enough for a Unix socket in it.

    Only this user can read the directory (mode 0700).

    Raises:
        EmbeddedServerError: the path would be too long.
    """
    for base in (tempfile.gettempdir(), "/tmp"):  # noqa: S108  mkdtemp makes a directory of mode 0700 in it
        if len(os.fsencode(base)) <= LONGEST_SOCKET_PATH - 30:
            return Path(tempfile.mkdtemp(prefix="perdure-", dir=base))
    raise EmbeddedServerError(
        f"The path of the temporary directory {tempfile.gettempdir()} is too long for a "
        "socket. Set TMPDIR to a shorter one."
    )
