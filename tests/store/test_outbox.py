"""The scripts with the broker on another server: they push nothing, and return the messages to
publish.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from perdure.worker.store import Store
from perdure.worker.store.replies import SweepReply
from tests.support.redis_servers import CrashableServer
from tests.support.runs import (
    GRACE,
    LEASE,
    START,
    advance,
    claim,
    commit_end,
    commit_next,
    due,
    due_in,
    events,
    fail_round,
    hash_of,
    message,
    messages,
    new_run,
    pause_next,
    phase,
    resume,
    retry,
    stop,
    try_claim,
)


@pytest.fixture
def store(any_server: CrashableServer, prefix: str) -> Iterator[Store]:
    made = Store(any_server.url, prefix, now=START, outbox=True)
    yield made
    made.close()


def lengths(store: Store, count: int) -> dict[str, int]:
    return dict.fromkeys(store.keys.queue_names, count)


def swept(store: Store, length: int | None = 0, after: int = 0) -> SweepReply:
    """Sweep once with this number of messages at the broker (None: it does not answer)."""
    advance(store, after)
    told = {} if length is None else lengths(store, length)
    return store.fleet.sweep(lease=LEASE, max_losses=3, jitter=0.0, lengths=told)


def test_no_transition_touches_a_list(store: Store) -> None:
    new_run(store)
    commit_next(store, claim(store))
    assert messages(store, "executor") == []
    fail_round(store, claim(store), max_failures=1)
    retry(store)
    stop(store, op="stop-2")
    resume(store)
    commit_end(store, claim(store))
    new_run(store, "lost")
    swept(store, after=GRACE)
    assert swept(store, after=GRACE).report == [("lost", "resent")]
    assert [messages(store, role) for role in ("controller", "executor")] == [[], []]


def test_a_message_that_is_redirected_is_published_by_the_caller(store: Store) -> None:
    new_run(store)
    try_claim(store, known=("other",))
    apart = store.keys.queue_of_set("controller", "a")
    assert store.rounds.redirect("r", queue=apart, to="able", by="w1") == (
        "ok",
        [(apart, message("r", 0, 0))],
    )
    assert phase(store) == "queued" and store.redis.llen(apart) == 0


def test_a_queued_run_is_due_a_grace_ahead(store: Store) -> None:
    """So that the sweep publishes the message if its publisher died before it did."""
    new_run(store)
    assert (phase(store), due_in(store)) == ("queued", GRACE)
    commit_next(store, claim(store))
    assert (phase(store), due_in(store)) == ("queued", GRACE)


def test_what_was_never_published_is_marked_then_handed_over(store: Store) -> None:
    new_run(store)
    assert swept(store, after=GRACE) == SweepReply([("r", "marked")], [])
    assert swept(store, after=GRACE) == SweepReply(
        [("r", "resent")], [(store.keys.queue("controller"), "r/0/0")]
    )


def test_what_a_sweep_queues_is_handed_over(store: Store) -> None:
    """A freed lease, a wait that is over, a question answered by its deadline."""
    new_run(store, "dies")
    claim(store, "dies")
    new_run(store, "fails")
    fail_round(store, claim(store, "fails"), delay=LEASE)
    new_run(store, "asks")
    pause_next(store, claim(store, "asks"), i_wait=str(LEASE), i_default='"yes"')
    found = swept(store, after=LEASE)
    assert sorted(found.report) == [("asks", "answered"), ("dies", "freed"), ("fails", "woken")]
    assert sorted(message for _, message in found.handed) == ["asks/1/1", "dies/0/0", "fails/0/0"]
    assert {queue for queue, message in found.handed if message == "asks/1/1"} == {
        store.keys.queue("executor")
    }


def test_each_push_takes_a_number_of_its_own(store: Store) -> None:
    """A broker that is not ours puts a repeated message at the far end: it waits there until that
    number has passed.
    """
    for run_id in ("lost", "next"):
        new_run(store, run_id)
    commit_end(store, claim(store, "next"))
    swept(store, after=GRACE, length=1)
    new_run(store, "last")
    assert ("lost", "resent") in swept(store, after=GRACE, length=1).report
    assert [hash_of(store, run_id)["number"] for run_id in ("last", "lost")] == ["3", "4"], (
        "1 and 2 were lost's and next's"
    )
    for _ in range(5):
        assert ("lost", "in_line") in swept(store, after=due_in(store, "lost"), length=2).report
    claim(store, "last")
    assert len(events(store, "lost", "resent")) == 1


def test_the_grace_stays_however_long_the_line(store: Store) -> None:
    new_run(store)
    new_run(store, "ahead")
    commit_end(store, claim(store, "ahead"))
    for pushes in range(1, 4):
        swept(store, after=GRACE, length=10_000)
        assert swept(store, after=GRACE, length=10_000).report == [("r", "resent")]
        new_run(store, f"behind{pushes}")
        commit_end(store, claim(store, f"behind{pushes}"))
    assert hash_of(store)["grace"] == str(GRACE)


def test_while_messages_wait_at_the_broker_a_run_beyond_the_cursor_is_in_line(store: Store) -> None:
    new_run(store)
    assert swept(store, after=GRACE, length=1).report == [("r", "in_line")]
    assert swept(store, after=60_000, length=1).report == [("r", "in_line")]
    assert swept(store, after=0, length=0).report == [("r", "marked")], (
        "nothing waits there any more: looked at at once"
    )


def test_a_broker_that_does_not_answer_makes_no_message_lost(store: Store) -> None:
    new_run(store)
    for _ in range(10):
        assert swept(store, after=GRACE, length=None) == SweepReply([("r", "in_line")], [])
    assert (due(store), hash_of(store).get("looked"), hash_of(store)["grace"]) == (
        store.now + GRACE,
        None,
        str(GRACE),
    )


def test_a_broker_that_does_not_answer_keeps_no_lease_from_being_freed(store: Store) -> None:
    new_run(store)
    claim(store)
    found = swept(store, after=LEASE, length=None)
    assert found.report == [("r", "freed")] and found.handed == [
        (store.keys.queue("controller"), "r/0/0")
    ]


def test_the_first_message_of_a_run_that_was_sent_twice_takes_no_line_along(store: Store) -> None:
    """A broker gives the message of a dead worker out again, at the head of the queue; the copy is
    at its tail. No run between them is passed.
    """
    new_run(store, "twice")
    claim(store, "twice")
    behind = [f"behind{place}" for place in range(5)]
    for run_id in behind:
        new_run(store, run_id)
    assert ("twice", "freed") in swept(store, after=LEASE, length=6).report
    claim(store, "twice")
    for _ in range(3):
        swept(store, after=GRACE, length=6)
    assert [
        run_id
        for run_id in behind
        if hash_of(store, run_id).get("looked") == "1" or events(store, run_id, "resent")
    ] == []
