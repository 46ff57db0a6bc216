"""Listing runs of several statuses: by time, a page at a time, with their counts."""

from __future__ import annotations

import pytest

from perdure import Client, InvalidInput
from perdure.worker.operations.run_counts import MOST_OF_ONE
from perdure.worker.settings import Settings
from perdure.worker.store import Store
from tests.support.redis_servers import until
from tests.support.runs import claim, commit_end, fail_round, submit


@pytest.fixture
def store(settings: Settings) -> Store:
    """A store on the server's own clock, as the client has it."""
    made = Store(settings.redis_url or "", settings.prefix)
    yield made  # type: ignore[misc]
    made.close()


def ended(store: Store, run_id: str, errored: bool = False) -> None:
    submit(store, run_id)
    granted = claim(store, run_id)
    if errored:
        fail_round(store, granted, max_failures=1)
    else:
        commit_end(store, granted)
    at = milliseconds(store)
    until(lambda: milliseconds(store) > at, "a later time for the next run")


def milliseconds(store: Store) -> int:
    """Return the server's clock, which orders the lists."""
    seconds, micros = store.redis.time()
    return seconds * 1000 + micros // 1000


def paged(client: Client, limit: int, look: int | None = None) -> list[str]:
    found: list[str] = []
    cursor = None
    while True:
        page = client.runs(limit=limit, cursor=cursor, look=look)
        found += [run.id for run in page]
        cursor = page.cursor
        if cursor is None:
            return found


def test_a_run_that_failed_last_is_listed_before_completed_ones_that_are_older(
    client: Client, store: Store
) -> None:
    for number in range(12):
        ended(store, f"done{number}")
    ended(store, "bad", errored=True)
    assert [run.id for run in client.runs(limit=1)] == ["bad"]
    submit(store, "new")
    page = client.runs(limit=3)
    assert [run.id for run in page] == ["new", "bad", "done11"]
    assert [run.id for run in client.runs(limit=2, cursor=page.cursor)] == ["done10", "done9"]


@pytest.mark.parametrize("look", [None, 1, 3])
@pytest.mark.parametrize("limit", [1, 2, 5])
def test_pages_over_all_statuses_hold_each_run_once_in_the_order_of_one_large_page(
    client: Client, store: Store, limit: int, look: int | None
) -> None:
    for number in range(9):
        if number % 3 == 0:
            submit(store, f"live{number}")
        else:
            ended(store, f"ended{number}", errored=number % 2 == 0)
    for index in ("live", "completed", "errored"):  # ids decide within one millisecond
        key = store.keys.index(index)
        store.redis.zadd(key, dict.fromkeys(store.redis.zrange(key, 0, 1), 5_000))  # type: ignore[union-attr,arg-type]
    whole = [run.id for run in client.runs(limit=100)]
    assert sorted(whole) == sorted(set(whole)) and len(whole) == 9
    assert paged(client, limit, look) == whole


def test_the_next_page_goes_on_where_the_last_one_ended_when_its_last_run_has_moved(
    client: Client, store: Store
) -> None:
    for number in range(6):
        submit(store, f"r{number}")
    page = client.runs(limit=2)
    granted = claim(store, "r4")
    commit_end(store, granted)
    assert [run.id for run in client.runs(limit=9, cursor=page.cursor)] == ["r3", "r2", "r1", "r0"]


def test_runs_are_counted_by_status_and_one_submitters_apart(client: Client, store: Store) -> None:
    submit(store, "queued")
    submit(store, "running")
    claim(store, "running")
    ended(store, "bad", errored=True)
    client.submit("countdown", "x", submitted_by="ann")
    counts = {
        "queued": 2,
        "running": 1,
        "interrupted": 0,
        "stopped": 0,
        "completed": 0,
        "errored": 1,
    }
    assert client.status_counts() == counts
    assert client.status_counts("ann") == {**dict.fromkeys(counts, 0), "queued": 1}
    assert MOST_OF_ONE <= 1000


def test_a_cursor_of_one_status_does_not_continue_a_page_of_all(
    client: Client, store: Store
) -> None:
    for number in range(3):
        submit(store, f"r{number}")
    with pytest.raises(InvalidInput, match="same status"):
        client.runs("queued", cursor=client.runs(limit=1).cursor)
