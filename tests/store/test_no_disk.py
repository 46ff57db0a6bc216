"""A server that cannot write to its disk refuses all writes; nothing that a worker does then may
surprise it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import redis

from perdure.worker.store import Store, StoreUnavailable
from perdure.worker.store.inspection import inspect
from perdure.worker.store.refusals import REFUSALS, refusal_code
from perdure.worker.store.tables import DeadLetters
from perdure.worker.store.urls import check_answers
from tests.support.redis_servers import CrashableServer, server
from tests.support.runs import START, new_run
from tests.support.spoiled_servers import without_disk


@pytest.fixture(scope="module")
def refusing() -> Iterator[CrashableServer]:
    with without_disk() as running:
        yield running


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
        pytest.param(lambda store: store.fleet.announce("w", {}, START, 0), id="announce"),
        pytest.param(lambda store: store.fleet.withdraw("w"), id="withdraw"),
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


def test_the_error_of_a_write_says_that_the_disk_is_the_cause(refusing: CrashableServer) -> None:
    store = Store(refusing.url)
    with pytest.raises(StoreUnavailable, match="It cannot write to its disk, which may be full"):
        new_run(store)
    store.close()


def test_a_server_without_a_disk_answers_and_says_that_it_refuses_writes(
    refusing: CrashableServer,
) -> None:
    text = check_answers(refusing.url)
    assert text is not None and "refuses for now: MISCONF" in text and "disk" in text
    sentence, remedy = inspect(refusing.url, "perdure").refuses or ("", "")
    assert "MISCONF" in sentence and remedy.startswith("It cannot write to its disk")


@pytest.mark.parametrize(
    ("setting", "code"),
    [(("min-replicas-to-write", "1"), "NOREPLICAS"), (("replicaof", "127.0.0.1 1"), "READONLY")],
)
def test_a_server_that_refuses_writes_is_named_with_what_to_do(
    setting: tuple[str, str], code: str
) -> None:
    with server("valkey", "everysec") as running:
        store = Store(running.url)
        name, value = setting
        if name == "replicaof":
            store.redis.replicaof(*value.split())
        else:
            store.redis.config_set(name, value)
        with pytest.raises(StoreUnavailable) as caught:
            new_run(store)
        store.close()
    assert f"refuses for now: {code} " in str(caught.value)
    assert str(caught.value).endswith(REFUSALS[code])


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (redis.exceptions.BusyLoadingError("Redis is loading the dataset in memory"), "LOADING"),
        (redis.ResponseError("Command # 1 (PING) of pipeline caused error: BUSY a script"), "BUSY"),
        (redis.exceptions.MasterDownError("Link with MASTER is down"), "MASTERDOWN"),
        (redis.ResponseError("BUSYGROUP Consumer Group name already exists"), None),
        (redis.ConnectionError("Connection refused"), None),
    ],
)
def test_a_refusal_is_told_from_no_answer(error: Exception, code: str | None) -> None:
    assert refusal_code(error) == code
