"""A sweep that does not depend on workers: for tests that have none for a while, or kill them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from perdure import Client, Settings
from perdure.worker.runtime.runtime import Runtime
from tests.support.runtimes import runtime_of


@contextmanager
def sweeping(client: Client, settings: Settings) -> Iterator[None]:
    """Sweep in this process while the block runs."""
    engine = Runtime(runtime_of(client).app, settings)
    sweeper = engine.new_sweeper("none", "threads", 0)
    sweeper.start()
    try:
        yield
    finally:
        sweeper.stop()
        engine.close()
