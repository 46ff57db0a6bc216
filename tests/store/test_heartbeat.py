"""extend_leases: one call a process keeps all its rounds, and hears who wants them stopped."""

from __future__ import annotations

from perdure.worker.store import Store
from tests.support.runs import (
    LEASE,
    START,
    advance,
    assert_lawful,
    claim,
    clock,
    commit_next,
    due,
    due_in,
    everything,
    fail_round,
    hash_of,
    later,
    new_run,
    phase,
    stop,
    sweep,
    sweep_after,
)


def test_a_beat_moves_lease_and_due_time_of_all_rounds_of_the_process(store: Store) -> None:
    leases = [
        (new_run(store, run_id), claim(store, run_id).token, "") for run_id in ("a", "b", "c")
    ]
    later(store, 1_000)
    assert store.rounds.extend(leases) == ["ok", "ok", "ok"]
    for run_id in ("a", "b", "c"):
        assert (
            due(store, run_id)
            == START + 1_000 + LEASE
            == int(hash_of(store, run_id)["lease_until"])
        )
        assert_lawful(store, run_id)


def test_no_leases_ask_nothing(store: Store) -> None:
    assert store.rounds.extend([]) == []


def test_a_beat_keeps_a_round_from_the_sweep(store: Store) -> None:
    new_run(store)
    token = claim(store).token
    for _ in range(5):
        advance(store, LEASE - 1)
        assert store.rounds.extend([("r", token, "")]) == ["ok"]
        assert sweep(store) == []
    assert hash_of(store)["losses"] == "0"


def test_a_beat_repeated_changes_nothing(store: Store) -> None:
    new_run(store)
    token = claim(store).token
    later(store, 5)
    store.rounds.extend([("r", token, '{"done":1}')])
    before = everything(store)
    assert store.rounds.extend([("r", token, '{"done":1}')]) == ["ok"]
    assert everything(store) == before


def test_a_graceful_stop_is_heard_with_the_beat(store: Store) -> None:
    new_run(store)
    token = claim(store).token
    stop(store)
    later(store, 7)
    assert store.rounds.extend([("r", token, "")]) == ["stop"]
    assert hash_of(store)["stop_seen_at"] == str(START + 7)
    later(store, 7)
    assert store.rounds.extend([("r", token, "")]) == ["stop"]
    assert hash_of(store)["stop_seen_at"] == str(START + 7), "seen once"


def test_a_stop_now_is_heard_as_a_lost_lease(store: Store) -> None:
    new_run(store)
    token = claim(store).token
    stop(store, "now")
    before = everything(store)
    assert store.rounds.extend([("r", token, "")]) == ["lost"]
    assert everything(store) == before


def test_a_lease_that_was_swept_is_lost_and_not_taken_back(store: Store) -> None:
    new_run(store)
    zombie = claim(store).token
    sweep_after(store, LEASE)
    before = everything(store)
    assert store.rounds.extend([("r", zombie, "")]) == ["lost"]
    assert everything(store) == before
    claim(store)
    before = everything(store)
    assert store.rounds.extend([("r", zombie, '{"done":9}')]) == ["lost"]
    assert everything(store) == before


def test_a_lease_that_lapsed_but_was_not_swept_is_still_extended(store: Store) -> None:
    new_run(store)
    token = claim(store).token
    advance(store, 3 * LEASE)
    assert store.rounds.extend([("r", token, "")]) == ["ok"]
    assert sweep(store) == []


def test_a_committed_round_and_a_run_that_is_gone_are_lost(store: Store) -> None:
    new_run(store)
    granted = claim(store)
    commit_next(store, granted)
    before = everything(store)
    assert store.rounds.extend([("r", granted.token, ""), ("nobody", "1", "")]) == ["lost", "lost"]
    assert everything(store) == before


def test_a_lease_is_not_extended_past_the_rounds_own_deadline(store: Store) -> None:
    new_run(store, fields={"round_timeout": "10000"})
    token = claim(store).token
    store.now = START + 9_000
    store.rounds.extend([("r", token, "")])
    assert due(store) == START + 9_000 + LEASE
    store.now = START + 11_000
    store.rounds.extend([("r", token, "")])
    assert due(store) == START + 10_000 + LEASE, (
        "its limit, and one lease in which it may still commit"
    )


def test_a_round_that_ignores_its_limit_is_a_failure_and_no_loss_of_a_worker(store: Store) -> None:
    new_run(store, fields={"round_timeout": "10000"})
    token = claim(store).token
    freed: list[tuple[str, str]] = []
    while not freed and clock(store) < START + 60_000:
        advance(store, 1_000)
        store.rounds.extend([("r", token, "")])
        freed = sweep(store)
    assert freed == [("r", "overran")] and clock(store) == START + 10_000 + LEASE
    assert (hash_of(store)["failures"], hash_of(store).get("losses"), phase(store)) == (
        "1",
        "0",
        "waiting",
    )


def test_a_limit_that_only_the_worker_knew_binds_the_lease_from_the_next_beat_on(
    store: Store,
) -> None:
    new_run(store)
    token = claim(store).token
    advance(store, 1_000)
    store.rounds.extend([("r", token, "")], [500])
    for _ in range(10):
        advance(store, 1_000)
        store.rounds.extend([("r", token, "")], [0])
    assert due(store) == START + 1_500 + LEASE
    assert sweep(store) == [("r", "overran")]


def test_a_lease_is_not_extended_past_the_deadline_of_the_run(store: Store) -> None:
    new_run(store, deadline=10_000)
    token = claim(store).token
    store.now = START + 11_000
    store.rounds.extend([("r", token, "")])
    assert due(store) == START + 10_000 + LEASE, (
        "the deadline, and one lease in which the round may still commit"
    )


def test_a_limit_that_only_the_worker_knew_ends_with_its_round(store: Store) -> None:
    new_run(store)
    granted = claim(store)
    store.rounds.extend([("r", granted.token, "")], [500])
    assert "round_until" in hash_of(store)
    commit_next(store, granted)
    later(store, 60_000)
    assert store.rounds.extend([("r", claim(store).token, "")]) == ["ok"]
    assert due_in(store) == LEASE


def test_a_limit_that_only_the_worker_knew_ends_with_its_attempt(store: Store) -> None:
    new_run(store)
    granted = claim(store)
    store.rounds.extend([("r", granted.token, "")], [500])
    fail_round(store, granted)
    assert "round_until" not in hash_of(store)


def test_a_run_of_a_wrong_type_costs_its_neighbours_nothing(store: Store) -> None:
    leases = [
        (new_run(store, run_id), claim(store, run_id).token, "")
        for run_id in ("before", "broken", "behind")
    ]
    store.redis.delete(store.keys.run("broken"))
    store.redis.set(store.keys.run("broken"), "not what it was")
    later(store, 1_000)
    assert store.rounds.extend(leases) == ["ok", "damaged", "ok"]
    assert [due_in(store, run_id) for run_id in ("before", "behind")] == [LEASE, LEASE]


def test_progress_travels_with_the_beat(store: Store) -> None:
    new_run(store)
    token = claim(store).token
    store.rounds.extend([("r", token, '{"done":1}')])
    store.rounds.extend([("r", token, "")])
    assert hash_of(store)["progress"] == '{"done":1}', "no news is not no progress"


def test_one_runs_answer_does_not_depend_on_its_neighbours(store: Store) -> None:
    leases = [
        (new_run(store, run_id), claim(store, run_id).token, "") for run_id in ("a", "b", "c")
    ]
    stop(store, "graceful", run_id="a")
    stop(store, "now", run_id="b")
    assert store.rounds.extend(leases) == ["stop", "lost", "ok"]


def test_a_beat_after_the_clock_was_set_back_brings_the_lease_back_to_the_clock(
    store: Store,
) -> None:
    """clock an hour back > the lease ends in an hour > the worker beats, and dies > orphan for an
    hour.
    """
    new_run(store)
    token = claim(store).token
    store.now = START - 3_600_000
    sweep(store)
    assert store.rounds.extend([("r", token, "")]) == ["ok"]
    assert due_in(store) == LEASE
    assert sweep_after(store, LEASE + LEASE) != [] or hash_of(store)["losses"] == "1"
