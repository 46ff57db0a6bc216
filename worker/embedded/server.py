"""The embedded server: a real Valkey or Redis that commands of one user share, with its data on disk.

Rules, in the order in which they matter:
- One directory, one server. The server process itself holds the lock on the directory, so the lock is free
  exactly when no server runs, whoever was killed and whatever files are left.
- The process whose `start` found no owner owns the server, until it dies. Only the owner's `stop` ends it.
- The server is a daemon in a session of its own: neither Ctrl-C nor the death of its starter ends it.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

from worker.embedded.binary import EmbeddedServerError, find_binary
from worker.embedded.files import ServerFiles, state_directory, try_lock
from worker.embedded.launch import Fsync, launch
from worker.embedded.probe import Answer, probe

_POLL_SECONDS = 0.003
#: How long a server may be silent while it starts or stops, and how long it may read its data.
_PATIENCE_SECONDS = 10.0
_LOADING_SECONDS = 300.0


class EmbeddedServer:
    """A server on a Unix socket, its data in `directory`.

    Args:
        directory: where data, socket and log are; the user's state directory by default. Its mode becomes 0700.
        binary: the server program; looked for (`find_binary`) when a server has to be started, by default.
        appendfsync: `always`, `everysec` or `no`, as in the server's own configuration. `always` loses nothing acknowledged.
            With `everysec` the server holds writes back, acknowledged ones too, while the disk is busy with a sync: killed
            in that moment it loses up to two seconds of them.
    """

    def __init__(
        self,
        directory: Path | None = None,
        binary: Path | str | None = None,
        appendfsync: Fsync = "always",
    ) -> None:
        self.directory = (directory or state_directory()).absolute()
        self.appendfsync = appendfsync
        self._binary = Path(binary) if binary is not None else None
        self._files = ServerFiles(self.directory)
        self._confirmed: int | None = None  # the process id that the server told at the last start
        self._ownership: tuple[int, int] | None = None  # descriptor of the owner's lock, and the process that took it

    @classmethod
    def running(cls, directory: Path | None = None) -> str | None:
        """The URL of the server that runs on `directory`, or None. Starts nothing, owns nothing."""
        server = cls(directory)
        return server.url if server.alive() else None

    @property
    def url(self) -> str:
        """Its address as redis-py reads it: `unix:///path/to.sock?db=0`."""
        return f"unix://{quote(str(self._files.socket()))}?db=0"

    @property
    def socket(self) -> Path:
        """The path of its Unix socket."""
        return self._files.socket()

    @property
    def pid(self) -> int | None:
        """The process id of the running server, confirmed by the server itself; None when it does not answer."""
        answer = self._answer()
        return answer.pid if answer else None

    @property
    def owned(self) -> bool:
        """Whether `stop` of this object ends the server."""
        return self._ownership is not None and self._ownership[1] == os.getpid()

    def alive(self) -> bool:
        """Whether the server answers commands now."""
        answer = self._answer()
        return answer is not None and answer.ready

    def start(self) -> None:
        """Return when a server on the directory answers: the one that runs already, else a new one.

        Raises:
            EmbeddedServerError: no program, an unusable directory, or a server that died or kept silent;
                with the last lines of its log.
        """
        self._files.make()
        began = time.monotonic()
        launched = False
        while not self.alive():
            lock = try_lock(self._files.lock)
            if lock is not None:
                try:
                    if launched:
                        raise self._failure("ended while starting")
                    # Asked again: where locks do not outlive the starter (some network file systems) this is what tells.
                    if not self.alive():
                        launch(self._binary or find_binary(), self._files, self.appendfsync, lock)
                        launched = True
                finally:
                    os.close(lock)  # ours; the server has its own copy, and with it the lock
            waited = time.monotonic() - began
            if waited > _PATIENCE_SECONDS and not (self._loading() and waited < _LOADING_SECONDS):
                raise self._failure(f"does not answer after {waited:.0f} s at {self._files.socket()}")
            time.sleep(_POLL_SECONDS)
        self._confirmed = self.pid
        self._take_ownership()

    def ensure(self) -> bool:
        """Start the server again if it died; for a supervisor's loop. A server that is only busy is left alone.

        Returns:
            True when it had died and runs again.

        Raises:
            EmbeddedServerError: as `start`.
        """
        if self.alive() or not self._ended():
            return False
        self.start()
        return True

    def stop(self) -> None:
        """End the server if this process owns it, and wait until it is gone; otherwise do nothing.

        Everything acknowledged is on disk afterwards. A server that ignores SIGTERM is killed.

        Raises:
            EmbeddedServerError: it is still there; the message names its process.
        """
        if not self.owned:
            return
        try:
            # A hung server cannot confirm its process id; the one it told at the start holds while its pid file does.
            pid = self.pid or self._confirmed
            for number in (signal.SIGTERM, signal.SIGKILL):
                if (self._signal(pid, number) or self._ended()) and self._gone(pid):
                    return
            raise self._failure("did not stop")
        finally:
            self._give_up_ownership()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def _answer(self) -> Answer | None:
        """What the server of this directory says; an answer under another process id is not its own."""
        answer = probe(self._files.socket())
        return answer if answer is not None and answer.pid is not None and answer.pid == self._files.pid() else None

    def _loading(self) -> bool:
        answer = self._answer()
        return answer is not None and answer.loading

    def _take_ownership(self) -> None:
        if not self.owned:
            lock = try_lock(self._files.owner_lock)
            self._ownership = None if lock is None else (lock, os.getpid())

    def _give_up_ownership(self) -> None:
        if self._ownership is not None:
            os.close(self._ownership[0])
            self._ownership = None

    def _ended(self) -> bool:
        """Whether no server holds the directory."""
        try:
            lock = try_lock(self._files.lock, shared=True)
        except FileNotFoundError:
            return True
        if lock is None:
            return False
        os.close(lock)
        return True

    def _signal(self, pid: int | None, number: signal.Signals) -> bool:
        """Signal the server, if the process it said it is still holds the directory; whether it was signalled."""
        if pid is None or self._ended() or self._files.pid() != pid:
            return False
        os.kill(pid, number)
        return True

    def _gone(self, pid: int | None) -> bool:
        """Wait, a bounded time, until the process `pid` is no longer the server; clean up behind it."""
        end = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < end:
            lock = try_lock(self._files.lock)
            if lock is not None:
                try:
                    if not self.alive():
                        self._files.clean_up()
                        return True
                finally:
                    os.close(lock)
            elif self.pid not in (pid, None):
                return True  # somebody has started the next one already
            time.sleep(_POLL_SECONDS)
        return False

    def _failure(self, what: str) -> EmbeddedServerError:
        pid = self._files.pid()
        holder = f" Its process is {pid}; end it if it hangs." if pid is not None and not self._ended() else ""
        return EmbeddedServerError(
            f"The embedded server with its data in {self.directory} {what}.{holder} "
            f"The end of its log ({self._files.log}):\n{self._files.log_tail()}"
        )
