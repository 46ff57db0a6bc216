"""The files of one embedded server: its data, pid, log and socket, and the two locks that say who runs and who owns it.

server.lock      locked by the server process itself, through a descriptor it inherits: the lock is free
                 exactly when no server runs on this data, however the last one ended
owner.lock       locked by the process that may stop the server, for as long as that process lives
server.pid       written by the server
server.log       the server's words since its start; server.log.1 those of the one before
server.address   the path of its socket, when that is not server.sock
appendonlydir/   the data
"""

from __future__ import annotations

import fcntl
import os
import platform
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from worker.embedded.binary import EmbeddedServerError

#: Bytes a socket path may have on every system (Linux 107, macOS 103).
LONGEST_SOCKET_PATH = 100


def state_directory() -> Path:
    """The user's state directory for Holdfast, where the shared server keeps its data."""
    if platform.system() == "Darwin":
        return Path.home() / "Library" / "Application Support" / "holdfast"
    base = os.environ.get("XDG_STATE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".local" / "state") / "holdfast"


def try_lock(path: Path, shared: bool = False) -> int | None:
    """Take the lock on `path`; None when somebody holds it.

    The answer is a descriptor: the lock lasts until every process that has a copy of it closed it or died.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


class ServerFiles:
    """The files of the server whose data is in `directory`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.lock = directory / "server.lock"
        self.owner_lock = directory / "owner.lock"
        self.pid_file = directory / "server.pid"
        self.log = directory / "server.log"
        self.address = directory / "server.address"

    def make(self) -> None:
        """Create the directory, for this user's eyes only.

        Raises:
            EmbeddedServerError: it cannot be created, or belongs to somebody else.
        """
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.directory.chmod(0o700)
        except OSError as error:
            raise EmbeddedServerError(
                f"The embedded server needs a directory of its own at {self.directory}: {error.strerror}. "
                "Make it writable, or set XDG_STATE_HOME to one that is."
            ) from error

    def pid(self) -> int | None:
        """The process id the server wrote down; nothing yet says that it still runs."""
        try:
            return int(self.pid_file.read_text())
        except (OSError, ValueError):
            return None

    def socket(self) -> Path:
        """Where the server listens, if it runs."""
        with suppress(OSError, ValueError):
            recorded = self.address.read_text().strip()
            if recorded:
                return Path(recorded)
        return self.directory / "server.sock"

    def prepare_start(self) -> Path:
        """Remove what a dead server left and choose the socket of the next; call with the lock held."""
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
        """Remove the traces of a server that was stopped, its data and log excepted; call with the lock held."""
        socket = self.socket()
        self.pid_file.unlink(missing_ok=True)
        socket.unlink(missing_ok=True)
        if socket.parent != self.directory and self._short_and_private(socket):
            self.address.unlink(missing_ok=True)
            with suppress(OSError):  # not empty: then something else is in there, and it stays
                socket.parent.rmdir()

    def log_tail(self, lines: int = 12) -> str:
        """The last lines the server wrote since its start."""
        try:
            with self.log.open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - 16_384))
                text = log.read().decode(errors="replace")
        except OSError:
            return "(it wrote no log)"
        return "\n".join(text.splitlines()[-lines:]) or "(its log is empty)"

    def _short_and_private(self, socket: Path) -> bool:
        """Whether a recorded socket path is short enough and its directory still ours alone."""
        try:
            found = socket.parent.lstat()
        except OSError:
            return False
        private = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077
        return private and len(os.fsencode(socket)) <= LONGEST_SOCKET_PATH


def _short_directory() -> Path:
    """A new directory of mode 0700 with a short path."""
    for base in (tempfile.gettempdir(), "/tmp"):  # noqa: S108  mkdtemp makes a directory of mode 0700 in it
        if len(os.fsencode(base)) <= LONGEST_SOCKET_PATH - 30:
            return Path(tempfile.mkdtemp(prefix="holdfast-", dir=base))
    raise EmbeddedServerError(
        f"No temporary directory with a path short enough for a socket: {tempfile.gettempdir()}. Set TMPDIR to a shorter one."
    )
