"""Pages of lists while runs start and end: each run that stays is on one page."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from perdure import Client
from perdure.worker.settings import Settings
from perdure.worker.store import Store
from perdure.worker.store.queries import ALWAYS
from tests.support.runs import claim, commit_end, pause_next, phase, resume, stop, submit

#: Has a mover move before each further exchange of the client.
Between = Callable[[Callable[[], object]], None]
#: Members of a sorted set in all orders that bytes may have.
MEMBERS = st.text("aB_-:0z", min_size=1, max_size=3)
#: Few scores, so that many entries share one.
ENTRIES = st.lists(st.dictionaries(MEMBERS, st.integers(1, 4), max_size=12), min_size=1, max_size=3)


@pytest.fixture
def store(settings: Settings) -> Iterator[Store]:
    """The mover's store: a second connection, on the server's own clock."""
    made = Store(settings.redis_url or "", settings.prefix)
    yield made
    made.close()


@pytest.fixture
def between(client: Client, monkeypatch: pytest.MonkeyPatch) -> Between:
    """Return a function that has a mover move before each of the client's further exchanges."""
    answered: Callable[..., AbstractContextManager[None]] = client._store._answered

    def start(move: Callable[[], object]) -> None:
        @contextmanager
        def moved(what: str = "") -> Iterator[None]:
            move()
            with answered(what):
                yield

        monkeypatch.setattr(client._store, "_answered", moved)

    return start


def submitted_ids(store: Store, count: int, **options: Any) -> list[str]:
    """Submit runs that stay; return ids, the oldest first."""
    ids = [f"stays{number:03}" for number in range(count)]
    for run_id in ids:
        submit(store, run_id, **options)
    return ids


def traffic(store: Store) -> Callable[[], None]:
    """Return a move that starts some runs, and ends and deletes some that it has started."""
    chance, numbers = random.Random(1), itertools.count()
    going: list[str] = []

    def move() -> None:
        for _ in range(chance.randrange(4)):
            going.append(f"goes{next(numbers)}")
            submit(store, going[-1])
        for _ in range(chance.randrange(min(4, 1 + len(going)))):
            run_id = going.pop(chance.randrange(len(going)))
            commit_end(store, claim(store, run_id))
            if chance.random() < 0.5:
                store.runs.delete(run_id)

    return move


def beside_others(store: Store, count: int, **options: Any) -> tuple[list[str], Callable[[], None]]:
    """Submit runs that stay, between others. Return their ids and a move of the others."""
    move = traffic(store)
    for _ in range(20):
        move()
    ids = submitted_ids(store, count, **options)
    for _ in range(20):
        move()
    return ids, move


def staying(ids: Iterable[str]) -> list[str]:
    return [run_id for run_id in ids if run_id.startswith("stays")]


def pages_of(client: Client, limit: int, **filters: Any) -> list[str]:
    """Return the ids on the pages of a list, of which few are read: under traffic it may grow."""
    ids: list[str] = []
    cursor: str | None = None
    for _ in range(25):
        page = client.runs(limit=limit, cursor=cursor, **filters)
        ids += [run.id for run in page]
        cursor = page.cursor
        if cursor is None:
            break
    return ids


@given(ENTRIES, st.tuples(st.integers(0, 5), MEMBERS) | st.none(), st.booleans(), st.data())
@hypothesis_settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_entries_come_in_the_order_of_score_and_member_from_any_position(
    store: Store,
    sets: list[dict[str, int]],
    position: tuple[int, str] | None,
    oldest_first: bool,
    data: st.DataObject,
) -> None:
    spans = {}
    expected = []
    for number, members in enumerate(sets):
        low, high = data.draw(st.sampled_from([ALWAYS, (2, 3), (2, math.inf)]))
        key = store.keys.index(f"made{number}")
        # Each member is in one of the sets, as each run is in one index.
        own = {f"{number}{member}": score for member, score in members.items()}
        store.redis.delete(key)
        if own:
            store.redis.zadd(key, own)
        spans[key] = low, high
        expected += [(score, member) for member, score in own.items() if low <= score <= high]
    if position is not None:
        expected = [
            entry for entry in expected if (entry > position if oldest_first else entry < position)
        ]
    expected.sort(reverse=not oldest_first)
    after = None if position is None else f"{float(position[0])}:{position[1]}"
    count = data.draw(st.integers(1, 40))
    entries = store.lists.entries(spans, count, after, oldest_first)
    assert entries == [(member, float(score)) for score, member in expected[:count]]


@pytest.mark.parametrize("query", [None, "status:queued,running", "sort:oldest", "goal:g"])
def test_pages_have_each_run_that_stays_once_while_others_start_and_end(
    client: Client, store: Store, between: Between, query: str | None
) -> None:
    ids, move = beside_others(store, 40)
    between(move)
    listed = pages_of(client, 7, query=query, status=None if query else "queued")
    assert staying(listed) == (ids if query == "sort:oldest" else ids[::-1])


def changing(store: Store, ids: list[str]) -> Callable[[], None]:
    """Return a move by which each run that waits for a person continues, and each other waits."""
    operations = itertools.count()

    def move() -> None:
        for run_id in ids:
            if phase(store, run_id) == "interrupted":
                resume(store, f"resume-{next(operations)}", run_id)
            else:
                pause_next(store, claim(store, run_id))

    return move


def some_wait(store: Store, ids: list[str]) -> None:
    for run_id in ids[::2]:
        pause_next(store, claim(store, run_id))


def test_pages_have_a_run_once_that_waits_and_continues_meanwhile(
    client: Client, store: Store, between: Between
) -> None:
    ids = submitted_ids(store, 16)
    some_wait(store, ids)
    between(changing(store, ids))
    assert pages_of(client, 3) == ids[::-1]
    assert client.ids_beginning("stays") == ids[::-1]


@pytest.mark.parametrize("do", ["signal_many", "request_stop_many"])
def test_a_bulk_operation_reaches_each_run_that_stays_live_while_others_start_and_end(
    client: Client, store: Store, between: Between, do: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdure.worker.client.bulk.PAGE", 7)
    ids, move = beside_others(store, 30)
    some_wait(store, ids)
    moves = itertools.cycle([move, changing(store, ids)])
    reached: list[str] = []

    def reach(run_id: str, *_: object, **__: object) -> None:
        reached.append(run_id)

    # Its effect on one run is not the matter here.
    monkeypatch.setattr(client, do.removesuffix("_many"), reach)

    def move_next() -> None:
        next(moves)()

    between(move_next)
    if do == "signal_many":
        client.signal_many("go", flow="ring")
    else:
        client.request_stop_many("ring")
    assert staying(reached) == ids[::-1]


def test_runs_that_wait_all_the_time_are_found_for_notifications_while_others_come_and_go(
    client: Client, store: Store, between: Between, monkeypatch: pytest.MonkeyPatch
) -> None:
    from perdure.worker.features.notifications.records import RestingRuns

    monkeypatch.setattr("perdure.worker.features.notifications.records.BATCH", 7)
    early = [f"goes{number:03}" for number in range(30)]
    for run_id in early:
        submit(store, run_id, phase="interrupted")
    ids = submitted_ids(store, 30, phase="interrupted")
    leaving = iter(early)

    def move() -> None:
        for run_id in itertools.islice(leaving, 10):
            stop(store, run_id=run_id)

    between(move)
    entered = RestingRuns(client._store).entered("interrupted", 0)
    assert staying(run_id for run_id, _ in entered) == ids


def test_the_leases_of_a_process_are_found_while_others_come_and_go(
    client: Client, store: Store, between: Between, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdure.worker.store.queries.MANY", 7)
    early = [f"goes{number:03}" for number in range(30)]
    for run_id in early:
        submit(store, run_id)
    ids = submitted_ids(store, 30)
    others = [claim(store, run_id) for run_id in early]
    for run_id in ids:
        claim(store, run_id, claim=f"host:1.{run_id}")
    leaving = iter(others)

    def move() -> None:
        for granted in itertools.islice(leaving, 10):
            commit_end(store, granted)

    between(move)
    assert sorted(run_id for run_id, _, _ in client._store.lists.held_by("host:1")) == ids


def inbox_pages(client: Client, **filters: Any) -> Iterator[list[str]]:
    """Yield the ids on each page of the inbox."""
    cursor: str | None = None
    while True:
        page = client.inbox(4, cursor, **filters)
        yield [waiting.run_id for waiting in page]
        cursor = page.cursor
        if cursor is None:
            return


def asked_of_each(store: Store, names: Iterable[str]) -> dict[str, list[str]]:
    """Submit runs of some people that wait for a person, and return their ids by submitter."""
    ids: dict[str, list[str]] = {}
    for number, name in enumerate(names):
        run_id = f"stays{number:03}"
        fields = {"submitted_by": name}
        submit(store, run_id, phase="interrupted", submitted_by=name, fields=fields)
        ids.setdefault(name, []).append(run_id)
    return ids


@pytest.mark.parametrize("looked_at", [7, 16, 10_000])
@pytest.mark.parametrize("name", [None, "ann", "bob"])
def test_the_inbox_has_each_run_that_waits_once_while_others_come_and_go(
    client: Client,
    store: Store,
    between: Between,
    monkeypatch: pytest.MonkeyPatch,
    looked_at: int,
    name: str | None,
) -> None:
    for bound in ("FIRST", "BATCH"):
        monkeypatch.setattr(f"perdure.worker.operations.waiting_runs.{bound}", 5)
    monkeypatch.setattr("perdure.worker.operations.waiting_runs.LOOKED_AT", looked_at)
    early = [f"goes{number:03}" for number in range(20)]
    for run_id in early:
        submit(store, run_id, phase="interrupted")
    ids = asked_of_each(store, random.Random(1).choices(["ann", "bob"], [5, 1], k=30))
    leaving, numbers = iter(early), itertools.count()

    def move() -> None:
        for run_id in itertools.islice(leaving, 3):
            stop(store, run_id=run_id)
        if (number := next(numbers)) < 40:
            submit(store, f"goes-late{number}", phase="interrupted")

    between(move)
    found = staying(itertools.chain.from_iterable(inbox_pages(client, submitted_by=name)))
    assert found == (sorted(itertools.chain(*ids.values())) if name is None else ids[name])


@pytest.mark.parametrize("own", [2, 30])
def test_a_page_of_the_inbox_reads_a_bounded_number_of_runs(
    client: Client, store: Store, monkeypatch: pytest.MonkeyPatch, own: int
) -> None:
    monkeypatch.setattr("perdure.worker.operations.waiting_runs.LOOKED_AT", 10)
    ids = asked_of_each(store, ["ann"] * 40 + ["bob"] * own)
    read: list[int] = []
    many_fields = client._store.reads.many_fields

    def counted(run_ids: Sequence[str], names: Sequence[str]) -> list[dict[str, str]]:
        read.append(len(run_ids))
        return many_fields(run_ids, names)

    monkeypatch.setattr(client._store.reads, "many_fields", counted)
    found = []
    for page in inbox_pages(client, submitted_by="bob"):
        assert sum(read) <= 10
        read.clear()
        found += page
    assert found == ids["bob"]
