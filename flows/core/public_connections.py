"""Connections to addresses that were checked before. They are shut down at a time limit."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from perdure.flows.core.public_addresses import Address

#: Seconds between two checks of the clock and of the cancel token.
_SLICE = 0.05


def connect(addresses: list[Address], port: int, end: float) -> socket.socket:
    """Return a TCP connection to the first reachable address.

    The caller passes checked addresses, because a host name could resolve to another address by
    now.

    Args:
        end: when to give up, as a time of ``time.monotonic``.

    Raises:
        OSError: No address accepted a connection. It is the error of the last address.
    """
    last_error: OSError = TimeoutError("no address answered")
    for address in addresses:
        try:
            return socket.create_connection(
                (str(address), port), timeout=max(0.001, end - time.monotonic())
            )
        except OSError as error:
            last_error = error
    raise last_error


@contextmanager
def cut_off(
    connection: socket.socket, end: float, cancelled: threading.Event | None = None
) -> Iterator[None]:
    """Shut a connection down if the ``with`` block runs too long or the round is cancelled.

    Without this, a server that sends one byte now and then could hold the round for ever.

    Args:
        end: when to shut the connection down, as a time of ``time.monotonic``.
        cancelled: the cancel token of the round. None if the round cannot be cancelled.
    """
    over = threading.Event()
    cancelled = threading.Event() if cancelled is None else cancelled

    def watch() -> None:
        """Shut the connection down on timeout or cancellation."""
        while not over.wait(_SLICE):
            if cancelled.is_set() or time.monotonic() >= end:
                # The method of the base class also works for TLS: it skips the closing handshake.
                with suppress(OSError):
                    socket.socket.shutdown(connection, socket.SHUT_RDWR)
                return

    watcher = threading.Thread(target=watch, name="http-get-watch", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
