"""The embedded server: a real Valkey or Redis, with data on disk, for all commands of one user.

Rules, most important first:

- One directory, one server. The server process itself holds the lock on the directory. So the lock
  is free exactly when no server runs, whichever process was killed and whichever files are left.
- A process whose `start` finds no owner becomes the owner of the server, until it stops the server
  or dies. Only the owner's `stop` ends the server.
- The server is a daemon in a session of its own. Neither Ctrl-C nor the death of its starter ends
  the server.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

from perdure.worker.embedded.binary import EmbeddedServerError, find_binary
from perdure.worker.embedded.files import ServerFiles, state_directory, try_lock
from perdure.worker.embedded.launch import Fsync, ProbeReply, launch, probe

_POLL_SECONDS = 0.003
#: Seconds that a server may take to start or stop, and to read its data.
_PATIENCE_SECONDS = 10.0
_LOADING_SECONDS = 300.0


class EmbeddedServer:
    """A Redis or Valkey server on a Unix socket, with its data in `directory`.

    Args:
        directory: the directory for data, socket and log. Its mode becomes 0700. Default: the
            user's state directory.
        binary: the server program. Default: `find_binary` finds it when a server must be started.
        appendfsync: `always`, `everysec` or `no`, as in the server's own configuration. `always`
            loses nothing that was acknowledged. With `everysec` the server delays writes, even
            acknowledged writes, while the disk is busy with a sync. A server that is killed at that
            moment loses up to two seconds of writes.
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
        #: The process id that the server reported at the last start.
        self._confirmed: int | None = None
        #: The owner lock's descriptor, and the process that took the lock.
        self._ownership: tuple[int, int] | None = None

    @classmethod
    def running(cls, directory: Path | None = None) -> str | None:
        """Return the URL of the server with its data in `directory`.

        None if no server serves commands there. This does not start a server, and does not take
        ownership of a server.
        """
        server = cls(directory)
        return server.url if server.alive() else None

    @property
    def url(self) -> str:
        """The embedded server's URL in redis-py's form: `unix:///path/to.sock?db=0`."""
        return f"unix://{quote(str(self._files.socket()))}?db=0"

    @property
    def socket(self) -> Path:
        """The path of the embedded server's Unix socket."""
        return self._files.socket()

    @property
    def pid(self) -> int | None:
        """The process id that the running server reports. None if the server does not reply."""
        answer = self._answer()
        return answer.pid if answer else None

    @property
    def program(self) -> str:
        """Name, version and path of the running server's program.

        The text is empty if the server does not reply.
        """
        answer = self._answer()
        return answer.program if answer else ""

    @property
    def owned(self) -> bool:
        """Whether this process owns the server. Only the owner's `stop` ends the server."""
        return self._ownership is not None and self._ownership[1] == os.getpid()

    def alive(self) -> bool:
        """Return whether the embedded server serves commands now."""
        answer = self._answer()
        return answer is not None and answer.ready

    def start(self) -> None:
        """Start the server unless it runs, and wait until it serves commands.

        Afterwards this process owns the server, unless another living process owns it.

        Raises:
            EmbeddedServerError: there is no program, or the directory cannot be used. Or the server
                died or did not reply: the message then has the last lines of its log.
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
                    # Checked again, since on some network file systems the lock does not outlive
                    # the starter. There only this check finds a running server.
                    if not self.alive():
                        launch(self._binary or find_binary(), self._files, self.appendfsync, lock)
                        launched = True
                finally:
                    os.close(lock)  # Only our copy. The server holds the lock by its own.
            waited = time.monotonic() - began
            if waited > _PATIENCE_SECONDS and not (self._loading() and waited < _LOADING_SECONDS):
                raise self._failure(
                    f"does not answer after {waited:.0f} s at {self._files.socket()}"
                )
            time.sleep(_POLL_SECONDS)
        self._confirmed = self.pid
        self._take_ownership()

    def ensure(self) -> bool:
        """Start the embedded server again if it has died.

        A supervisor calls this in its loop. A server that is only busy is not restarted.

        Returns:
            True if the server had died and was started again. False if the server runs.

        Raises:
            EmbeddedServerError: as for `start`.
        """
        if self.alive() or not self._ended():
            return False
        self.start()
        return True

    def stop(self) -> None:
        """Stop the server if this process owns it, and wait until the server has ended.

        All acknowledged writes are on disk afterwards. A server that ignores SIGTERM is killed. If
        this process is not the owner, nothing happens. Afterwards this process no longer owns the
        server, even after an error.

        Raises:
            EmbeddedServerError: the server still runs. The message has its process id.
        """
        if not self.owned:
            return
        try:
            # A hung server cannot confirm its process id. The id that it reported at the start is
            # valid as long as its pid file has it.
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _answer(self) -> ProbeReply | None:
        """Return this server's reply to a probe.

        None if the server does not reply, or if the process id in the reply is not the one in the
        pid file: the reply is then from another server.
        """
        answer = probe(self._files.socket())
        return (
            answer
            if answer is not None and answer.pid is not None and answer.pid == self._files.pid()
            else None
        )

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
        """Return whether no server runs with this directory: the server lock is free."""
        try:
            lock = try_lock(self._files.lock, shared=True)
        except FileNotFoundError:
            return True
        if lock is None:
            return False
        os.close(lock)
        return True

    def _signal(self, pid: int | None, number: signal.Signals) -> bool:
        """Send a signal to the server if ``pid`` is the process id of the running server.

        Args:
            number: The signal.

        Returns:
            Whether the signal was sent.
        """
        if pid is None or self._ended() or self._files.pid() != pid:
            return False
        os.kill(pid, number)
        return True

    def _gone(self, pid: int | None) -> bool:
        """Wait until the server with the process id `pid` has ended.

        The files of the ended server are removed, except data and log.

        Returns:
            True if the server has ended, or if another process has started the next server. False
            if the server still runs after ten seconds.
        """
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
                return True  # Another process has already started the next server.
            time.sleep(_POLL_SECONDS)
        return False

    def _failure(self, what: str) -> EmbeddedServerError:
        pid = self._files.pid()
        holder = (
            f" Its process is {pid}; end it if it hangs."
            if pid is not None and not self._ended()
            else ""
        )
        return EmbeddedServerError(
            f"The embedded server with data in {self.directory} {what}.{holder} "
            f"The end of its log ({self._files.log}):\n{self._files.log_tail()}"
        )
