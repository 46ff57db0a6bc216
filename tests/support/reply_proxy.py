"""A wire between a client and a real server on which some of the server's words are changed on
their way back.

For replies that no server on this machine would give: an old version, a disk that was too slow.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def server_that_says(socket_path: Path, there: Path, words: Mapping[bytes, bytes]) -> Iterator[str]:
    """Run such a wire, and yield its URL; each word of the server is replaced by another of the
    same length.

    Args:
        socket_path: the real server's. there: where the wire's socket is put.
    """
    assert all(len(old) == len(new) for old, new in words.items()), (
        "lengths travel ahead of the text"
    )
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(there))
        door.listen()
        open_ends: list[socket.socket] = []

        def accept() -> None:
            while True:
                try:
                    client, _ = door.accept()
                except OSError:
                    return
                real = socket.socket(socket.AF_UNIX)
                real.connect(str(socket_path))
                open_ends.extend((client, real))
                for source, target, changed in ((client, real, {}), (real, client, words)):
                    threading.Thread(
                        target=_pass_on, args=(source, target, changed), daemon=True
                    ).start()

        threading.Thread(target=accept, daemon=True).start()
        try:
            yield f"unix://{there}"
        finally:
            door.shutdown(socket.SHUT_RDWR)
            for end in open_ends:
                end.close()


def _pass_on(source: socket.socket, target: socket.socket, words: Mapping[bytes, bytes]) -> None:
    try:
        while data := source.recv(1 << 20):
            for old, new in words.items():
                data = data.replace(old, new)
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # the other side has hung up
