"""Whose run it is: kept with it, listed by it, and the runs of one submitter treated together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from perdure import Client, InvalidInput, RunStatus
from perdure.worker.settings import Settings
from perdure.worker.store import Claim, Store
from tests.support.redis_servers import CrashableServer
from tests.support.runs import everything, fail_round, submit, try_claim


@pytest.fixture
def client(any_server: CrashableServer, prefix: str) -> Iterator[Client]:
    made = Client(settings=Settings(redis_url=any_server.url, prefix=prefix))
    yield made
    made.close()


def listed(store: Store, name: str = "ann") -> list[str]:
    return [run_id for run_id, _ in store.lists.submitted(name, 100)]


def new(
    client: Client,
    owner: str | None,
    status: str = "queued",
    flow: str = "countdown",
    labels: Mapping[str, str] | None = None,
) -> str:
    """Submit a run of that owner and that status."""
    before = ["Controller"] if status == "interrupted" else None
    run = client.submit(flow, "g", {}, labels=labels, submitted_by=owner, interrupt_before=before)
    if status == "stopped":
        client.request_stop(run.id, "now")
    if status == "errored":
        granted = try_claim(client._store, run.id, known=(flow,))
        assert isinstance(granted, Claim)
        fail_round(client._store, granted, max_failures=1)
    return run.id


def test_a_run_says_whose_it_is(client: Client) -> None:
    mine = client.submit("countdown", "g", submitted_by="ann@example.org")
    nobodys = client.submit("countdown", "g")
    assert client.get(mine.id).details["submitted_by"] == "ann@example.org"
    assert client.get(nobodys.id).details.get("submitted_by") is None
    assert listed(client._store, "ann@example.org") == [mine.id]


@pytest.mark.parametrize("name", ["", " ann", "a/b", "a b", "ann\n", "a" * 101, "_x", "é", "*"])
def test_what_is_no_name_is_refused_and_nothing_is_stored(client: Client, name: str) -> None:
    with pytest.raises(InvalidInput, match="submitted_by"):
        client.submit("countdown", "g", submitted_by=name)
    with pytest.raises(InvalidInput, match="submitted_by"):
        client.runs(submitted_by=name)
    assert not client._store.redis.keys(f"{client.settings.prefix}:*")


def test_a_submission_that_makes_no_run_is_listed_for_nobody(store: Store) -> None:
    assert submit(store, "r", submitted_by="ann", idempotency_key="k", content="c") == ("ok", "r")
    assert submit(store, "r", submitted_by="ann", idempotency_key="k", content="c") == (
        "ok",
        "r",
    ), "sent again"
    assert submit(store, "s", submitted_by="ann", idempotency_key="k", content="c") == (
        "existing",
        "r",
    )
    assert submit(store, "s", submitted_by="bob", idempotency_key="k", content="d") == (
        "conflict",
        "r",
    )
    assert submit(store, "r", submitted_by="bob", nonce="another") == ("exists", "r")
    assert (listed(store), listed(store, "bob")) == (["r"], [])


def test_a_list_of_another_type_is_damage_and_nothing_is_written(store: Store) -> None:
    key = store.keys.submitted("ann")
    store.redis.set(key, "x")
    before = everything(store)
    assert submit(store, "r", submitted_by="ann") == ("damaged", key)
    assert everything(store) == before
    assert submit(store, "r", submitted_by="bob") == ("ok", "r")


def test_runs_that_are_gone_leave_the_list_when_somebody_looks(client: Client) -> None:
    gone, stays = new(client, "ann", "stopped"), new(client, "ann")
    client.delete(gone)
    assert set(listed(client._store)) == {gone, stays}
    assert [run.id for run in client.runs(submitted_by="ann")] == [stays]
    assert listed(client._store) == [stays]


def test_a_run_that_took_the_id_of_one_that_is_gone_is_its_new_owners(client: Client) -> None:
    client.submit("countdown", "g", run_id="r", submitted_by="ann")
    client.request_stop("r", "now")
    client.delete("r")
    client.submit("countdown", "g", run_id="r", submitted_by="bob")
    assert len(client.runs(submitted_by="ann")) == 0 and [
        run.id for run in client.runs(submitted_by="bob")
    ] == ["r"]


def test_one_submitters_runs_are_listed_newest_first_whatever_their_status(client: Client) -> None:
    runs = [
        new(client, "ann", status)
        for status in ("stopped", "queued", "interrupted", "errored", "queued")
    ]
    new(client, "bob")
    found = client.runs(submitted_by="ann")
    assert sorted(run.id for run in found) == sorted(runs) and {
        run.details["submitted_by"] for run in found
    } == {"ann"}
    assert [run.created_at for run in found] == sorted(
        (run.created_at for run in found), reverse=True
    )
    assert [run.id for run in client.runs("errored", submitted_by="ann")] == [runs[3]]


def test_a_cursor_of_another_listing_is_refused(client: Client) -> None:
    for _ in range(3):
        new(client, "ann")
    of_all, of_ann = client.runs(limit=1).cursor, client.runs(limit=1, submitted_by="ann").cursor
    for cursor, whose in ((of_all, "ann"), (of_ann, None)):
        with pytest.raises(InvalidInput, match="same status and submitter"):
            client.runs(limit=1, cursor=cursor, submitted_by=whose)
    assert len(client.runs(cursor=of_ann, submitted_by="bob")) == 0, (
        "a place in a list that has none of them"
    )


def test_pages_of_any_size_give_what_one_large_page_gives(client: Client) -> None:
    for number in range(30):
        status = ("queued", "interrupted", "stopped", "errored")[number % 4]
        flow = ("countdown", "bisect")[number % 7 == 0]
        labels = {"team": "ab"[number % 2]} | ({"nightly": "yes"} if number % 3 else {})
        if flow == "bisect":
            status, flow = "queued", "countdown"
        new(client, (None, "ann", "bob")[number % 3], status, flow, labels)

    @given(
        status=st.sampled_from([None, *RunStatus]),
        whose=st.sampled_from([None, "ann", "bob", "nobody"]),
        flow=st.sampled_from([None, "countdown", "other"]),
        labels=st.sampled_from([{}, {"team": "a"}, {"team": "b", "nightly": "yes"}, {"team": "c"}]),
        limit=st.integers(1, 12),
        look=st.none() | st.integers(1, 12),
    )
    @example(status=None, whose=None, flow=None, labels={}, limit=1, look=1)
    @hypothesis_settings(max_examples=12)
    def pages_agree(
        status: RunStatus | None,
        whose: str | None,
        flow: str | None,
        labels: dict[str, str],
        limit: int,
        look: int | None,
    ) -> None:
        whole = client.runs(status, flow, 1000, labels=labels, submitted_by=whose)
        assert whole.cursor is None
        found: list[str] = []
        cursor = None
        for _ in range(100):
            page = client.runs(
                status, flow, limit, cursor, labels=labels, submitted_by=whose, look=look
            )
            assert len(page) <= limit
            found += [run.id for run in page]
            cursor = page.cursor
            if cursor is None:
                break
        assert found == [run.id for run in whole]

    pages_agree()


def test_an_inbox_of_one_submitter_has_their_questions_alone(client: Client) -> None:
    mine = [new(client, "ann", "interrupted") for _ in range(5)]
    theirs = [new(client, "bob", "interrupted") for _ in range(5)]
    new(client, "ann")
    for whose, ids in (("ann", mine), ("bob", theirs), ("nobody", []), (None, mine + theirs)):
        found: list[str] = []
        cursor = None
        while True:
            inbox = client.inbox(2, cursor, whose)
            found += [waiting.run_id for waiting in inbox]
            cursor = inbox.cursor
            if cursor is None:
                break
        assert sorted(found) == sorted(ids)


def test_what_is_done_to_many_is_done_to_one_submitters_alone(client: Client) -> None:
    def of(whose: str, status: str) -> set[str]:
        return {run.id for run in client.runs(status, submitted_by=whose)}

    statuses = ("queued", "interrupted", "errored", "stopped")
    for whose in ("ann", "bob", "ann"):
        for status in statuses:
            new(client, whose, status)
    theirs = {status: of("bob", status) for status in statuses}
    stopped = client.request_stop_many("countdown", submitted_by="ann")
    assert len(stopped) == 4 and all(receipt.stopped for receipt in stopped)
    retried = client.retry_many(submitted_by="ann")
    assert len(retried) == 2 and not [each for each in retried if each.why_not]
    deleted = client.delete_many("stopped", submitted_by="ann")
    assert len(deleted) == 6 and not [each for each in deleted if each.why_not]
    assert {run.id for run in client.runs(submitted_by="ann")} == {each.run_id for each in retried}
    assert {status: of("bob", status) for status in statuses} == theirs


def test_runs_that_are_gone_leave_the_list_when_others_are_submitted(client: Client) -> None:
    """A service that submits and never lists must not leave an id behind for each run that there
    ever was.
    """
    store = client._store
    key = store.keys.submitted("ann")
    stays = new(client, "ann")
    store.redis.zadd(key, {f"gone{n}": 1_000_000 + n for n in range(500)})
    for _ in range(20):
        new(client, "ann")
    left = store.redis.zrange(key, 0, -1)
    assert len(left) == 21 and stays in left
