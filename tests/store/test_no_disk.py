"""A server that cannot write to its disk refuses all writes; nothing that a worker does then may surprise it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from perdure.worker.store import Store, StoreUnavailable
from perdure.worker.store.tables import DeadLetters
from tests.support.redis_servers import CrashableServer, server, until
from tests.support.runs import START, new_run


@pytest.fixture(scope="module")
def refusing() -> Iterator[CrashableServer]:
    """A server that answers every write with MISCONF: a directory stands where its snapshot should go."""
    with server("valkey", "everysec") as running:
        (running.directory / "dump.rdb").mkdir()
        (running.directory / "dump.rdb" / "full").touch()  # an empty one could be replaced
        store = Store(running.url)
        store.redis.config_set("save", "3600 1")
        store.redis.bgsave()
        until(
            lambda: store.redis.info("persistence")["rdb_last_bgsave_status"] == "err",
            "a snapshot that fails",
        )
        yield running
        store.redis.config_set("save", "")  # else it would try once more before it ends
        store.close()


def put_aside(store: Store) -> None:
    letters = DeadLetters(store.url, "perdure")
    try:
        letters.put_aside("q", "text", "why")
    finally:
        letters.close()


@pytest.mark.parametrize(
    "write",
    [
        pytest.param(new_run, id="submit"),
        pytest.param(lambda store: store.announce("w", {}, START, 0), id="announce"),
        pytest.param(lambda store: store.withdraw("w"), id="withdraw"),
        pytest.param(put_aside, id="dead letter"),
        pytest.param(lambda store: store.pauses.add("flow", None, None), id="pause"),
    ],
)
def test_a_server_without_a_disk_is_unavailable(
    refusing: CrashableServer, write: Callable[[Store], object]
) -> None:
    store = Store(refusing.url)
    with pytest.raises(StoreUnavailable, match="refuses for now: MISCONF"):
        write(store)
    store.close()
