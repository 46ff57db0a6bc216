"""Errored runs in groups: their numbers, the newest of each, and the query that chooses exactly
them.
"""

from __future__ import annotations

import pytest

from perdure import Client, ErrorGroups, InvalidInput
from tests.support.runs import claim, fail_round

SLOW = "run {id}, step 0, node Controller: TimeoutError: {number} s"
GONE = 'run {id}, step 0, node Controller: the "order" {number} is gone'
#: Errors whose kinds are hard to write in a query line.
ODD = (
    "",
    " \n ",
    "run {id}, step 0, node Controller: ",
    "run {id}, step 0, node Controller: Weird: ",
    "run {id}, step 0, node Controller: Weird: m",
    "run {id}, step 0, node Controller: the disk is full",
    "(no text) at all",
    "-status:errored",
    "flow:other kind:x",
    'a "half quote',
    "back\\slash\\",
    "tab\tand\x1fseparator",
    "a,b",
    "…",
    "{number}",
    "é" * 200,
    "'" * 7,
)


def failed(client: Client, error: str, flow: str = "countdown", **options: object) -> str:
    """Make an errored run with this error, a second later than the one before."""
    store = client._store
    run = client.submit(flow, "g", {"rounds": 1}, **options)  # type: ignore[arg-type]
    number = store.ended_count = getattr(store, "ended_count", 0) + 1  # type: ignore[attr-defined]
    granted = claim(store, run.id, known=(flow,))
    fail_round(store, granted, max_failures=1)
    at = 1_700_000_000_000 + number * 1000
    text = error.format(id=run.id, number=number)
    store.redis.hset(store.keys.run(run.id), mapping={"error": text, "ended_at": at})
    store.redis.zadd(store.keys.index("errored"), {run.id: at})
    return run.id


def shape(found: ErrorGroups) -> list[tuple[str, int, str]]:
    return [(group.kind, group.count, group.newest) for group in found.groups]


def test_errored_runs_are_grouped_by_flow_node_and_kind_of_error(client: Client) -> None:
    slow = [failed(client, SLOW, labels={"team": "a b"}), failed(client, SLOW)]
    gone = [failed(client, GONE) for _ in range(3)]
    client.submit("countdown", "still going", {"rounds": 1})
    found = client.error_groups()
    assert shape(found) == [("the … … is gone", 3, gone[2]), ("TimeoutError", 2, slow[1])]
    assert (found.looked_at, found.looked_back) == (5, None)
    (group, other) = found.groups
    assert (group.flow, group.node) == ("countdown", "Controller")
    assert group.error.endswith('the "order" 5 is gone')
    assert set(client.matching(query=group.query)) == set(gone)
    assert set(client.matching(query=other.query)) == set(slow)
    narrow = client.error_groups("countdown", query='label:team="a b" sort:oldest')
    assert shape(narrow) == [("TimeoutError", 1, slow[0])]
    assert client.matching(query=narrow.groups[0].query) == [slow[0]]
    assert client.error_groups("none").groups == client.error_groups(query="status:queued").groups


def test_the_query_of_each_group_chooses_the_runs_that_it_counts_and_no_others(
    client: Client,
) -> None:
    ids = {failed(client, error, submitted_by=by) for error in ODD for by in ("ann", "bob")}
    client.submit("countdown", "still going", {"rounds": 1})
    for asked in ({}, {"submitted_by": "ann"}, {"query": "by:ann,bob -kind:Weird children:yes"}):
        chosen: list[str] = []
        for group in client.error_groups(**asked).groups:  # type: ignore[arg-type]
            runs = client.matching(query=group.query)
            assert len(runs) == group.count and group.newest in runs, group
            chosen += runs
        assert len(set(chosen)) == len(chosen) and set(chosen) <= ids
    damaged = failed(client, SLOW)
    client._store.redis.hset(client._store.keys.run(damaged), "current_node", "")
    (group,) = [each for each in client.error_groups().groups if not each.node]
    assert (group.newest, group.query) == (damaged, ""), "a query would choose other groups"


def test_a_bounded_look_says_how_far_it_went(client: Client) -> None:
    ids = [failed(client, SLOW) for _ in range(4)]
    found = client.error_groups(look=3)
    assert shape(found) == [("TimeoutError", 3, ids[3])] and found.looked_at == 3
    assert found.looked_back is not None and found.looked_back.timestamp() == 1_700_000_002
    older = client.error_groups(query=f"ended:<{found.looked_back.isoformat()}")
    assert older.looked_at == 2, "the last one that was looked at, too"


def test_a_submitter_has_groups_of_their_own(client: Client) -> None:
    mine = failed(client, SLOW, submitted_by="ann")
    failed(client, SLOW, submitted_by="bob")
    assert shape(client.error_groups(submitted_by="ann")) == [("TimeoutError", 1, mine)]


@pytest.mark.parametrize("wrong", [{"query": "team:a"}, {"look": 0}, {"flow": 3}])
def test_what_cannot_be_looked_for_says_what_was_expected(
    client: Client, wrong: dict[str, object]
) -> None:
    with pytest.raises(InvalidInput, match=r"should be|no key"):
        client.error_groups(**wrong)  # type: ignore[arg-type]
