"""A real RabbitMQ on loopback, in its own directory, that can be killed, frozen and restarted."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import amqp

import perdure.worker.app  # noqa: F401 -- registers the name
from perdure.worker.store.keys import Keys
from tests.support.os_processes import alive
from tests.support.ports import LOOPBACK, free_ports
from tests.support.redis_servers import until

#: Debian's /usr/sbin/rabbitmq-server is a wrapper that insists on the user rabbitmq; this is the
#: wrapped program.
UNWRAPPED = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
#: Two schedulers (as many as a small machine has cores), and the port that nodes would meet at on
#: loopback as well.
ERLANG = "+S 2:2 -kernel inet_dist_use_interface {127,0,0,1}"
#: Runs the command, beside a watcher that kills the whole group once the other end of the standard
#: input is closed.
WATCHED = 'exec 3<&0; (cat <&3 >/dev/null; kill -KILL 0) & exec "$0" </dev/null 3<&-'
#: Shared machines are often low on disk and memory; a test broker that blocks its publishers for it
#: tells nothing.
CONFIG = """\
listeners.tcp.default = {loopback}:{port}
disk_free_limit.absolute = 1MB
vm_memory_high_watermark.relative = 0.9
log.console.level = warning
"""


def rabbit_binary() -> Path | None:
    """Return this machine's start script of RabbitMQ, or None."""
    if UNWRAPPED.exists():
        return UNWRAPPED
    found = shutil.which(
        "rabbitmq-server", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"
    )
    return Path(found) if found else None


class RabbitServer:
    """A broker that a test may kill, freeze, and start again on the same data.

    Args:
        directory: an empty one, for its data, log and cookie.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port, self._node_port, self._epmd_port = free_ports(3)
        self._process: subprocess.Popen[bytes] | None = None
        self._epmd: subprocess.Popen[bytes] | None = None
        (directory / "rabbitmq.conf").write_text(CONFIG.format(loopback=LOOPBACK, port=self.port))
        (directory / "plugins").write_text("[].")

    @property
    def url(self) -> str:
        """For Celery's and our ``broker_url``; the user ``guest`` is let in from loopback only."""
        return f"amqp://guest:guest@{LOOPBACK}:{self.port}//"

    @property
    def pid(self) -> int:
        """Of the Erlang machine that is the broker."""
        return int((self.directory / "pid").read_text())

    def start(self) -> None:
        """Start it, on the data that is there, and return when AMQP answers."""
        binary = rabbit_binary()
        assert binary is not None, "this machine has no rabbitmq-server"
        if self._epmd is None:
            # One of our own: the daemon that Erlang starts otherwise would outlive the tests.
            self._epmd = self._started("epmd")
            until(lambda: _answers(self._epmd_port), "epmd's first answer")
        self._process = self._started(str(binary))
        until(
            lambda: self.speaks_amqp() or self._process.poll() is not None,
            "RabbitMQ's first answer",
            90,
        )  # type: ignore[union-attr]
        assert self._process.poll() is None, (
            f"RabbitMQ ended at its start:\n{(self.directory / 'output').read_text()[-4000:]}"
        )

    def kill(self) -> None:
        """Kill the broker with SIGKILL, and return when it is gone; its data stays.

        A dead broker stays as it is.
        """
        if self._process is None:
            return
        broker = self.pid if (self.directory / "pid").exists() else None
        _end(self._process)  # the start script waits for the broker in the same group
        self._process = None
        if broker is not None:
            until(lambda: not alive(broker), f"the end of RabbitMQ {broker}")
            (self.directory / "pid").unlink()

    def restart(self) -> None:
        """Kill it, and start it on the same data."""
        self.kill()
        self.start()

    def freeze(self) -> None:
        """Send SIGSTOP: its connections stay open and say nothing."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Send SIGCONT."""
        os.kill(self.pid, signal.SIGCONT)

    def close(self) -> None:
        """End everything that was started here."""
        self.kill()
        if self._epmd is not None:
            _end(self._epmd)
            self._epmd = None

    def speaks_amqp(self) -> bool:
        """Return whether a client can connect."""
        try:
            self.connection(timeout=2).close()
        except (OSError, amqp.AMQPError):
            return False
        return True

    def connection(self, timeout: float = 10, **options: Any) -> amqp.Connection:
        """Open a plain AMQP connection; it waits at most ``timeout`` seconds for each answer
        meanwhile.
        """
        made = amqp.Connection(f"{LOOPBACK}:{self.port}", connect_timeout=timeout, **options)
        made.connect()
        return made

    def settled(self, queue: str) -> bool:
        """Return whether the quorum queue is written down to the last bit.

        RabbitMQ notes the name of a new one on disk half a second late; killed before, it never
        serves that queue again.
        """
        return any(
            queue.encode() in path.read_bytes()
            for path in self.directory.glob("data/*/quorum/*/names.dets")
        )

    def forget(self, prefix: str) -> None:
        """Delete the queues of ``prefix``, with their messages."""
        with self.connection() as connection:
            for queue in Keys(prefix).queue_names:
                connection.channel(1).queue_delete(queue)

    def _started(self, command: str) -> subprocess.Popen[bytes]:
        """Start a process in a new session that dies with this one: its watcher ends the session at
        the end of our pipe.
        """
        with (self.directory / "output").open("ab") as output:
            return subprocess.Popen(
                ["/bin/sh", "-c", WATCHED, command],
                cwd=self.directory,
                env=self._environment(),
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def _environment(self) -> dict[str, str]:
        bare = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("RABBITMQ_", "ERL_"))
        }
        return {
            **bare,
            "HOME": str(self.directory),  # where Erlang keeps its cookie
            "ERL_EPMD_ADDRESS": LOOPBACK,
            "ERL_EPMD_PORT": str(self._epmd_port),
            "RABBITMQ_NODENAME": f"test{self.port}@localhost",
            "RABBITMQ_DIST_PORT": str(self._node_port),
            "RABBITMQ_CONF_ENV_FILE": str(self.directory / "none"),
            "RABBITMQ_CONFIG_FILE": str(self.directory / "rabbitmq.conf"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(self.directory / "none.config"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.directory / "plugins"),
            "RABBITMQ_MNESIA_BASE": str(self.directory / "data"),
            "RABBITMQ_LOG_BASE": str(self.directory / "log"),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_PID_FILE": str(self.directory / "pid"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": ERLANG,
        }


def _end(process: subprocess.Popen[bytes]) -> None:
    """Send SIGKILL to its whole group."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(10)
    assert process.stdin is not None
    process.stdin.close()


Kind = TypeVar("Kind", bound=RabbitServer)


@contextmanager
def rabbit_server(kind: type[Kind] = RabbitServer) -> Iterator[Kind]:
    """Start a separate broker; remove it and its data afterwards."""
    directory = Path(tempfile.mkdtemp(prefix="hf-rabbit-"))
    running = kind(directory)
    try:
        running.start()
        yield running
    finally:
        running.close()
        shutil.rmtree(directory)


def _answers(port: int) -> bool:
    with socket.socket() as made:
        return made.connect_ex((LOOPBACK, port)) == 0
