"""A sweep that does not depend on workers: for tests that have none for a while, or kill them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from worker import Client, Settings
from worker.engine import Engine


@contextmanager
def sweeping(client: Client, settings: Settings) -> Iterator[None]:
    """Sweep in this process while the block runs."""
    engine = Engine(client._engine.app, settings)
    sweeper = engine.sweeper("none", "threads", 0)
    sweeper.start()
    try:
        yield
    finally:
        sweeper.stop()
        engine.close()
