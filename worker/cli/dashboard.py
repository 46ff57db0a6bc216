"""Dashboard: the control room of `up`, beside the worker and on this machine alone."""

from __future__ import annotations

import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from worker.cli.child import Child
from worker.cli.listening import HOST, PORT, address_of, address_of_socket, listen_from
from worker.cli.watched import Watched

if TYPE_CHECKING:
    from worker.embedded import EmbeddedServer

#: In the server's directory: where the dashboard of its runs is.
FILE = "dashboard.address"
#: Seconds that another one gets to answer.
PATIENCE = 2.0


class Dashboard(Watched):
    """A control room whose address stays what it is while one process of it takes the place of another.

    The socket is this process's, so requests wait while there is none to answer, instead of being refused.

    Args:
        server: of the runs.
        port: where; None: 8787, or the next one that is free.

    Raises:
        Failed: the port that was asked for is in use.
    """

    def __init__(self, server: EmbeddedServer, port: int | None) -> None:
        self._listening = listen_from(PORT) if port is None else address_of(HOST, port).listen()
        self.url = address_of_socket(self._listening).url
        self._file = server.directory / FILE
        descriptor = self._listening.fileno()
        child = Child(
            ["--url", server.url, "--descriptor", str(descriptor)],
            {"HOLDFAST_BROKER_URL": server.url},
            command="server",
            descriptors=(descriptor,),
        )
        super().__init__("dashboard", child)
        self._file.write_text(self.url)

    def close(self) -> None:
        """End it."""
        self.child.kill()
        self._listening.close()
        if found(self._file.parent) == self.url:
            self._file.unlink(missing_ok=True)


def found(directory: Path) -> str | None:
    """The address that another `up` wrote down."""
    with suppress(OSError):
        return (directory / FILE).read_text().strip() or None
    return None


def answering(directory: Path) -> str | None:
    """The address of another `up`'s dashboard, if it answers."""
    address = found(directory)
    if address is None or not address.startswith("http://"):
        return None
    try:
        urllib.request.urlopen(f"{address}/api/v1/health", timeout=PATIENCE).close()  # noqa: S310  http alone, see above
    except urllib.error.HTTPError as error:
        error.close()  # that is an answer
    except OSError:
        return None
    return address
