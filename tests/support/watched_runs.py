"""A run that is watched: its store in real time, the ids of its events, and its end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from perdure.worker.settings import Settings
from perdure.worker.store import Store
from tests.support import runs as play


@pytest.fixture
def real_time(settings: Settings) -> Iterator[Store]:
    """The store with the server's own clock."""
    assert settings.redis_url is not None
    made = Store(settings.redis_url, settings.prefix)
    yield made
    made.close()


def ids_of(store: Store, run_id: str = "r") -> list[str]:
    return [entry_id for entry_id, _ in store.events.read(run_id, count=100_000)]


def finish(store: Store, run_id: str = "r") -> None:
    """Play the run to its end: no event follows."""
    assert play.commit_end(store, play.claim(store, run_id))[0] == "ok"
