"""A forwarded message is in the list of workers that play its flow, and the sweep looks after its
run as ever.
"""

from __future__ import annotations

import pytest

from perdure.worker.store import Claim, ClaimRefused, Store
from tests.support.runs import (
    GRACE,
    assert_lawful,
    claim,
    clock,
    commit,
    commit_next,
    due,
    events,
    fail_round,
    hash_of,
    later,
    message,
    messages,
    new_run,
    phase,
    stop,
    sweep,
    sweep_after,
    take,
    try_claim,
)

ABLE = "able"


@pytest.fixture
def apart(store: Store) -> str:
    """The list of workers that play the flow, one of whom lives."""
    name = store.keys.queue_of_set("controller", "a")
    come(store, name)
    return name


def come(store: Store, name: str) -> None:
    store.fleet.announce(ABLE, {"lists": [name]}, clock(store), 0)


def refuse(store: Store) -> None:
    """Take the run's message as a worker that does not play its flow."""
    take(store)
    answer = try_claim(store, known=("other",))
    assert (
        isinstance(answer, ClaimRefused) and answer.word == "unknown" and phase(store) == "waiting"
    )


def hand_on(store: Store, name: str, run_id: str = "r") -> str:
    return store.rounds.redirect(run_id, queue=name, to=ABLE, by="w1")[0]


def there(store: Store, name: str) -> list[str]:
    return list(reversed(store.redis.lrange(name, 0, -1)))


def test_a_refused_message_is_handed_on_and_its_run_is_queued_at_once(
    store: Store, apart: str
) -> None:
    new_run(store)
    refuse(store)
    assert hand_on(store, apart) == "ok"
    assert there(store, apart) == [message("r", 0, 0)] and messages(store) == []
    assert (phase(store), due(store), hash_of(store)["unknown"]) == (
        "queued",
        clock(store) + GRACE,
        "0",
    )
    [told] = events(store, kind="handed_on")
    assert (told["to"], told["by"]) == (ABLE, "w1")
    assert_lawful(store)
    assert isinstance(try_claim(store), Claim)


def test_the_message_of_a_run_that_code_does_not_fit_is_handed_on(store: Store, apart: str) -> None:
    new_run(store)
    take(store)
    fail_round(store, claim(store), uncounted=1)
    assert hand_on(store, apart) == "other", "it waits for its provider"
    sweep_after(store, 1_000)
    take(store)
    fail_round(store, claim(store), uncounted=1, reason="code")
    assert hand_on(store, apart) == "ok"
    assert there(store, apart) == [message("r", 0, 0)] and messages(store) == []
    assert_lawful(store)
    assert isinstance(try_claim(store), Claim)


def test_made_twice_it_is_handed_on_once(store: Store, apart: str) -> None:
    new_run(store)
    refuse(store)
    assert [hand_on(store, apart) for _ in range(2)] == ["ok", "other"]
    assert len(there(store, apart)) == 1 and len(events(store, kind="handed_on")) == 1


def test_a_run_that_does_not_wait_for_a_worker_with_its_flow_is_left_alone(
    store: Store, apart: str
) -> None:
    new_run(store)
    assert hand_on(store, apart) == "other" and hand_on(store, apart, "nobody") == "missing"
    granted = claim(store)
    assert hand_on(store, apart) == "other"
    commit(store, granted, "failed", error="e", delay=500, max_failures=9)
    assert phase(store) == "waiting" and hand_on(store, apart) == "other"
    stop(store)
    assert hand_on(store, apart) == "other" and there(store, apart) == []


def test_a_list_of_the_other_role_takes_no_message(store: Store, apart: str) -> None:
    new_run(store, role="executor")
    store.redis.delete(*store.keys.queue_names)
    try_claim(store, known=("other",))
    assert hand_on(store, apart) == "other" and there(store, apart) == []


def test_in_line_there_it_is_not_sent_again(store: Store, apart: str) -> None:
    new_run(store)
    refuse(store)
    hand_on(store, apart)
    for _ in range(4):
        assert sweep_after(store, GRACE) == [("r", "in_line")]
        come(store, apart)
    assert messages(store) == [] and len(there(store, apart)) == 1


def test_lost_there_it_is_sent_to_all_again(store: Store, apart: str) -> None:
    new_run(store)
    refuse(store)
    hand_on(store, apart)
    store.redis.delete(apart)
    assert [sweep_after(store, GRACE)[0][1] for _ in range(2)] == ["marked", "resent"]
    assert messages(store) == [message("r", 0, 0)] and "handed_to" not in hash_of(store)


def test_where_no_worker_of_the_list_lives_it_goes_back_to_the_queue_of_all(
    store: Store, apart: str
) -> None:
    new_run(store)
    refuse(store)
    hand_on(store, apart)
    store.fleet.withdraw(ABLE)
    assert sweep_after(store, GRACE) == [("r", "resent")]
    assert messages(store) == [message("r", 0, 0)] and there(store, apart) == []


def test_a_worker_that_went_silent_is_not_taken_for_alive(store: Store, apart: str) -> None:
    new_run(store)
    refuse(store)
    hand_on(store, apart)
    later(store, 20_000)
    assert sweep(store) == [("r", "resent")]


def test_the_next_round_is_not_looked_for_there(store: Store, apart: str) -> None:
    new_run(store)
    refuse(store)
    hand_on(store, apart)
    assert commit_next(store, claim(store), "Controller") == ("ok", "continued")
    later(store, GRACE)
    come(store, apart)
    assert sweep(store) == [("r", "in_line")] and messages(store) == [message("r", 0, 1)]


def test_a_round_that_is_given_back_goes_to_all(store: Store, apart: str) -> None:
    new_run(store)
    refuse(store)
    hand_on(store, apart)
    assert commit(store, claim(store), "give_back") == ("ok", "queued")
    assert "handed_to" not in hash_of(store) and messages(store) == [message("r", 0, 0)]


@pytest.mark.parametrize("told", ["0 0 elsewhere", "0 0", "x", "9 9 {list}"])
def test_what_is_damaged_of_it_is_as_if_it_were_not_there(
    store: Store, apart: str, told: str
) -> None:
    new_run(store)
    store.redis.hset(store.keys.run("r"), "handed_to", told.format(list=apart))
    assert sweep_after(store, GRACE) == [("r", "in_line")] and phase(store) == "queued"
