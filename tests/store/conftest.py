"""The transitions are tested on every kind of server."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from perdure.worker.store import Store
from tests.support.leftover_keys import keys_under
from tests.support.redis_servers import CrashableServer
from tests.support.runs import START


@pytest.fixture
def store(any_server: CrashableServer, prefix: str) -> Iterator[Store]:
    """A store whose clock stands at START until the test moves it (``store.now += ms``)."""
    made = Store(any_server.url, prefix, now=START)
    yield made
    made.close()


@pytest.fixture
def fresh_store(store: Store) -> Callable[[], Store]:
    """Return the store for the next case of a table: without keys, its clock at START."""

    def emptied() -> Store:
        if left := keys_under(store.redis, store.keys.prefix):
            store.redis.delete(*left)
        store.now = START
        return store

    return emptied
