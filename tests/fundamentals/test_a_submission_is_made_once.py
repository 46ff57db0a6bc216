"""A submission can be repeated without fear, and a mistake in it raises an error before anything is
stored.
"""

from __future__ import annotations

import pytest

from perdure import Client, Conflict, InvalidInput, RunExists, RunNotFound, RunStatus, UnknownFlow


def test_the_same_key_with_the_same_content_is_the_same_run(client: Client) -> None:
    first = client.submit("countdown", "launch", {"rounds": 3}, idempotency_key="launch-7")
    assert (
        client.submit("countdown", "launch", {"rounds": 3}, idempotency_key="launch-7").id
        == first.id
    )
    with pytest.raises(Conflict, match=first.id):
        client.submit("countdown", "launch", {"rounds": 4}, idempotency_key="launch-7")


def test_a_run_id_is_used_once(client: Client) -> None:
    client.submit("countdown", "launch", {"rounds": 3}, run_id="launch")
    with pytest.raises(RunExists, match="launch"):
        client.submit("countdown", "launch", {"rounds": 3}, run_id="launch")


def test_a_mistake_is_told_and_nothing_is_stored(client: Client) -> None:
    with pytest.raises(UnknownFlow, match="countdown"):
        client.submit("countdwn", "launch")
    with pytest.raises(InvalidInput, match="rounds"):
        client.submit("countdown", "launch", {"rounds": "many"})
    with pytest.raises(InvalidInput, match="65537 bytes"):
        client.submit("countdown", "x" * 65537, {"rounds": 3})
    assert list(client.runs()) == []


def test_runs_can_be_listed_and_deleted(client: Client) -> None:
    ids = [
        client.submit("countdown", str(number), {"rounds": 3}, labels={"n": str(number)}).id
        for number in range(5)
    ]
    page = client.runs(limit=2)
    seen = [run.id for run in page]
    while page.cursor:
        page = client.runs(limit=2, cursor=page.cursor)
        seen += [run.id for run in page]
    assert sorted(seen) == sorted(ids) and len(seen) == 5
    client.request_stop(ids[0])
    assert [run.id for run in client.runs(RunStatus.STOPPED)] == [ids[0]]
    client.delete(ids[0])
    with pytest.raises(RunNotFound):
        client.get(ids[0])


def test_a_damaged_run_is_named_and_hides_no_other(client: Client) -> None:
    for run_id in ("sound", "broken"):
        client.submit("countdown", "launch", {"rounds": 3}, run_id=run_id)
    client._store.redis.hset(client._store.keys.run("broken"), "status", "asleep")
    page = client.runs()
    assert ([run.id for run in page], page.damaged) == (["sound"], ("broken",))
