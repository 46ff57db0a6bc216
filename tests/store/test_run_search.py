"""Searching the list of runs: pages of a query, in each order, with and without a bound of the runs
looked at.
"""

from __future__ import annotations

import pytest

from perdure import Client, InvalidInput
from perdure.worker.settings import Settings
from perdure.worker.store import Store
from tests.support.cases import EachCase, cases_of


def paged(client: Client, line: str, limit: int, look: int | None) -> list[str]:
    found: list[str] = []
    cursor = None
    while True:
        page = client.runs(query=line, limit=limit, look=look, cursor=cursor)
        found += [run.goal for run in page]
        cursor = page.cursor
        if cursor is None:
            return found


@pytest.fixture
def runs(client: Client, settings: Settings) -> dict[str, str]:
    """Ten runs, a minute apart, by goal; every third is of ann's, and one is stopped."""
    store = Store(settings.redis_url or "", settings.prefix)
    ids = {}
    for number in range(10):
        run = client.submit(
            "countdown", f"n{number}", labels={"odd": str(number % 2)},
            submitted_by="bob" if number % 3 else "ann", inputs={"rounds": number % 5 + 1},
        )  # fmt: skip
        ids[run.goal] = run.id
        at = store.time() - (10 - number) * 60_000
        store.redis.hset(store.keys.run(run.id), "created_at", at)
        store.redis.hset(store.keys.run(run.id), "spent", f'{{"money": {number % 4}}}')
        store.redis.zadd(store.keys.index("live"), {run.id: at})
        owner = "bob" if number % 3 else "ann"
        store.redis.zadd(store.keys.submitted(owner), {run.id: at})
    client.request_stop(ids["n4"], "now")
    store.close()
    return ids


#: Query, and the goals of the runs that it finds, in order.
QUERIES = {
    "label:odd=1": "n9 n7 n5 n3 n1",
    "label:odd=1 sort:oldest": "n1 n3 n5 n7 n9",
    "by:ann": "n9 n6 n3 n0",
    "by:ann sort:oldest": "n0 n3 n6 n9",
    "by:ann,ann sort:oldest": "n0 n3 n6 n9",
    "by:ann,bob submitted:<270s": "n9 n8 n7 n6",
    "by:ann by:bob submitted:<270s": "n9 n8 n7 n6",
    "by:ann,eve": "n9 n6 n3 n0",
    "-by:bob,eve": "n9 n6 n3 n0",
    "status:stopped": "n4",
    "status:stopped,queued -by:ann submitted:>2m": "n8 n7 n5 n4 n2 n1",
    "submitted:<270s": "n9 n8 n7 n6",
    "submitted:<270s sort:oldest submitted:>150s": "n6 n7",
    "n1": "n1",
    "input:rounds=2": "n6 n1",
    "input:rounds=2 -input:rounds=1 sort:oldest": "n1 n6",
    "input:none": "",
    "flow:none": "",
}
#: Runs of a page, and runs that one page may look at.
BOUNDS = {
    "one a page": (1, None),
    "whole": (50, None),
    "pages of two": (2, None),
    "a look at four": (3, 4),
}


def test_pages_of_a_query_hold_each_matching_run_once_in_order(
    client: Client, runs: dict[str, str], each_case: EachCase
) -> None:
    def check(line: str, bounds: str) -> None:
        assert paged(client, line, *BOUNDS[bounds]) == QUERIES[line].split()

    each_case(cases_of(QUERIES, BOUNDS), check)


def test_a_run_is_found_by_its_id_and_by_the_beginning_of_it(
    client: Client, runs: dict[str, str]
) -> None:
    run_id = runs["n0"]
    for line in (run_id, f"id:{run_id}"):
        # It is the oldest, behind all that the page may look at.
        assert [run.id for run in client.runs(query=line, look=1)] == [run_id]
    assert [run.id for run in client.runs(query=f"id:{run_id[:9]}")] == [run_id]
    assert len(client.runs(query=f"{run_id} status:errored")) == 0


def test_pages_of_a_query_that_names_ids_hold_each_matching_run_once(
    client: Client, each_case: EachCase
) -> None:
    for run_id in ("a1", "b2", "a1x", "c3"):
        client.submit("countdown", run_id, run_id=run_id, inputs={"rounds": 1})

    def check(line: str, bounds: str) -> None:
        found = paged(client, line, *BOUNDS[bounds])
        assert sorted(found) == ["a1", "a1x", "b2"]

    lines = ("id:b2 id:a1", "id:a1 id:none id:b2 id:a1", "id:a1 id:b2 sort:oldest")
    bounds = ("one a page", "pages of two", "whole")
    each_case(cases_of(lines, bounds), check)
    for line in ("a1 sort:cost", "id:a1 id:none sort:duration", "id:a1 sort:oldest"):
        assert sorted(paged(client, line, 50, None)) == ["a1", "a1x"], line
        assert sorted(paged(client, line, 2, 1)) == ["a1", "a1x"], line
    assert [run.id for run in client.runs(query="none sort:duration", limit=1)] == []


def test_a_damaged_run_that_a_query_names_is_reported_on_one_page(client: Client) -> None:
    for run_id in ("a1", "a1x", "a1y"):
        client.submit("countdown", run_id, run_id=run_id, inputs={"rounds": 1})
    client._store.redis.hset(client._store.keys.run("a1"), "labels", "{")
    cursor, damaged = None, []
    for _ in range(3):
        page = client.runs(query="id:a1", limit=1, cursor=cursor)
        damaged, cursor = [*damaged, *page.damaged], page.cursor
    assert (damaged, cursor) == (["a1"], None)


def test_the_largest_of_those_looked_at_come_first(client: Client, runs: dict[str, str]) -> None:
    by_cost = [run.goal for run in client.runs(query="sort:cost", limit=3)]
    assert sorted(by_cost) in (["n2", "n3", "n7"], ["n3", "n6", "n7"]) and set(by_cost) >= {
        "n3",
        "n7",
    }
    assert [run.goal for run in client.runs(query="sort:duration", limit=2)] == ["n0", "n1"]
    page = client.runs(query="sort:cost", limit=1, look=5)
    assert [run.goal for run in page] == ["n7"] and page.cursor
    rest = client.runs(query="sort:cost", limit=1, look=5, cursor=page.cursor)
    assert [run.goal for run in rest] == ["n3"]


def test_a_cursor_of_one_order_does_not_continue_another(
    client: Client, runs: dict[str, str]
) -> None:
    cursor = client.runs(query="sort:oldest", limit=1).cursor
    with pytest.raises(InvalidInput, match="cursor"):
        client.runs(limit=1, cursor=cursor)
    with pytest.raises(InvalidInput, match="sort: is not for the children"):
        client.runs(query="sort:cost", parent=runs["n0"])
