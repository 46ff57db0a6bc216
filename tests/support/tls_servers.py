"""Servers with TLS on loopback, with certificates made for the test."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import trustme

from tests.support.ports import LOOPBACK, free_ports
from tests.support.rabbitmq import RabbitServer
from tests.support.redis_servers import available_binaries, until

#: The name in the servers' certificates; it leads to loopback, and so does NOT_IN_IT.
NAME, NOT_IN_IT = "localhost", LOOPBACK
RABBIT = """\
listeners.ssl.default = {loopback}:{port}
ssl_options.cacertfile = {files}/ca.pem
ssl_options.certfile = {files}/server.pem
ssl_options.keyfile = {files}/server.key
ssl_options.verify = verify_none
"""


class Certificates:
    """A server's certificate for NAME, its authority's, and one of an authority that has nothing to
    do with it.
    """

    def __init__(self, directory: Path) -> None:
        authority = trustme.CA()
        issued = authority.issue_cert(NAME)
        self.directory = directory
        self.ca, self.wrong_ca = directory / "ca.pem", directory / "wrong.pem"
        authority.cert_pem.write_to_path(self.ca)
        trustme.CA().cert_pem.write_to_path(self.wrong_ca)
        issued.private_key_pem.write_to_path(directory / "server.key")
        with (directory / "server.pem").open("wb") as file:
            file.writelines(blob.bytes() for blob in issued.cert_chain_pems)


class TlsServer:
    """Debian's redis-server with an encrypted port, and a plain one beside it."""

    def __init__(self, directory: Path) -> None:
        self.certificates = Certificates(directory)
        self.port, self.plain_port = free_ports(2)

    def url(self, ca: Path | None = None, name: str = NAME, scheme: str = "rediss") -> str:
        """Return its address; ``ca`` for the trusted authority (None: the authorities of the
        machine).
        """
        return f"{scheme}://{name}:{self.port}/0" + (f"?ssl_ca_certs={ca}" if ca else "")


@contextmanager
def tls_server() -> Iterator[TlsServer]:
    """Start a separate server; remove it and its data afterwards."""
    directory = Path(tempfile.mkdtemp(prefix="hf-tls-"))
    made = TlsServer(directory)
    options = {
        "dir": directory,
        "bind": LOOPBACK,
        "port": made.plain_port,
        "tls-port": made.port,
        "tls-auth-clients": "no",
    }
    options |= {
        "tls-cert-file": directory / "server.pem",
        "tls-key-file": directory / "server.key",
        "tls-ca-cert-file": directory / "ca.pem",
    }
    options |= {"appendonly": "yes", "save": "", "logfile": directory / "log"}
    arguments = [str(part) for name, value in options.items() for part in (f"--{name}", value)]
    process = subprocess.Popen(
        [available_binaries()["redis"], *arguments], stdin=subprocess.DEVNULL
    )
    try:
        until(lambda: answers(made.port) or process.poll() is not None, "the server's port")
        assert process.poll() is None, (directory / "log").read_text()
        yield made
    finally:
        process.terminate()
        process.wait(10)
        shutil.rmtree(directory)


class TlsRabbit(RabbitServer):
    """RabbitMQ with an encrypted port beside the plain one."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.certificates = Certificates(directory)
        (self.tls_port,) = free_ports(1)
        with (directory / "rabbitmq.conf").open("a") as file:
            file.write(RABBIT.format(loopback=LOOPBACK, port=self.tls_port, files=directory))

    def tls_url(self, query: str = "", name: str = NAME) -> str:
        return f"amqps://guest:guest@{name}:{self.tls_port}//" + (f"?{query}" if query else "")


def answers(port: int) -> bool:
    """Return whether a server listens there."""
    with socket.socket() as made:
        return made.connect_ex((LOOPBACK, port)) == 0
