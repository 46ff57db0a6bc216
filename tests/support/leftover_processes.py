"""Processes that a test started indirectly: whether they still run."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path


def alive(process: int) -> bool:
    """Whether it runs; a zombie that nobody has waited for does not."""
    try:
        return Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()[0] not in (
            b"Z",
            b"X",
        )
    except FileNotFoundError:
        return False


def wait_for(condition: Callable[[], bool]) -> None:
    """Poll for at most 20 seconds."""
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end, "waited 20 s"
        threading.Event().wait(0.01)


def numbers(file: Path, count: int) -> list[int]:
    """The ``count`` process ids that a command wrote into ``file``, once they are all there."""
    wait_for(lambda: file.exists() and len(file.read_text().split()) == count)
    return [int(word) for word in file.read_text().split()]
