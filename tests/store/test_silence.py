"""An outage is not a death: leases that lapsed in a time without sweeps are spared, once each."""

from __future__ import annotations

from perdure.worker.store import Store
from tests.support.runs import (
    LEASE,
    START,
    advance,
    claim,
    clock,
    commit_next,
    due_in,
    hash_of,
    later,
    new_run,
    phase,
    sweep,
    sweep_after,
)


def silence(store: Store, ms: int) -> list[tuple[str, str]]:
    """Let ``ms`` pass without a sweep; then sweep."""
    later(store, ms)
    return sweep(store)


def test_a_lease_that_lapsed_in_a_silence_is_spared_once(store: Store) -> None:
    """A stall of 4.5 s with no restart robs live workers."""
    new_run(store)
    sweep(store)
    claim(store)
    assert silence(store, LEASE + 500) == [("r", "spared")]
    assert due_in(store) == LEASE
    assert hash_of(store)["losses"] == "0" and phase(store) == "leased"
    assert sweep_after(store, LEASE) == [("r", "freed")]


def test_a_spared_round_that_beats_and_commits_was_never_robbed(store: Store) -> None:
    new_run(store)
    sweep(store)
    granted = claim(store)
    silence(store, 10 * LEASE)
    advance(store, 500)
    assert store.rounds.extend([("r", granted.token, "")]) == ["ok"]
    assert commit_next(store, granted) == ("ok", "continued")


def test_a_beat_in_the_millisecond_of_the_sweep_that_spared_it_is_a_beat(store: Store) -> None:
    """Else a second silence would find the end that was spared, and rob a worker that has beaten
    whenever it could.
    """
    new_run(store)
    sweep(store)
    granted = claim(store)
    assert silence(store, LEASE + 500) == [("r", "spared")]
    assert store.rounds.extend([("r", granted.token, "")]) == ["ok"]
    assert silence(store, LEASE + 500) == [("r", "spared")]
    assert commit_next(store, granted) == ("ok", "continued")


def test_a_lease_that_lapses_within_half_a_lease_after_the_silence_is_spared(store: Store) -> None:
    """The worker could not beat in the silence either."""
    new_run(store)
    sweep(store)
    claim(store)
    assert silence(store, LEASE * 3 // 4) == []
    assert sweep_after(store, LEASE // 4) == [("r", "spared")]


def test_a_lease_that_lapses_later_after_the_silence_is_freed(store: Store) -> None:
    """A global calm period would never free the dead."""
    new_run(store)
    sweep(store)
    silence(store, LEASE)
    claim(store)
    assert sweep_after(store, LEASE) == [("r", "freed")]


def test_a_lease_that_lapsed_before_the_silence_is_freed(store: Store) -> None:
    new_run(store)
    sweep(store)
    claim(store)
    for _ in range(9):
        advance(store, 500)
    assert silence(store, 3 * LEASE) == [("r", "freed")]


def test_a_gap_of_half_the_shortest_lease_is_no_silence(store: Store) -> None:
    new_run(store)
    sweep(store)
    claim(store)
    assert silence(store, LEASE // 2) == []
    assert silence(store, LEASE // 2) == [("r", "freed")]


def test_a_gap_just_longer_is_a_silence(store: Store) -> None:
    new_run(store)
    sweep(store)
    claim(store)
    advance(store, LEASE // 2 - 1)
    assert silence(store, LEASE // 2 + 1) == [("r", "spared")]


def test_before_the_first_sweep_ever_all_was_silence(store: Store) -> None:
    """claimed before the first sweep > the server stands still for longer than the lease > the
    first sweep takes no lease away.
    """
    new_run(store)
    claim(store)
    assert silence(store, 10_000) == [("r", "spared")]
    assert sweep_after(store, LEASE) == [("r", "freed")]


def test_sweeps_that_follow_each_other_are_no_silence(store: Store) -> None:
    new_run(store)
    sweep(store)
    claim(store)
    words = []
    for _ in range(LEASE // 500):
        words += silence(store, 500)
    assert words == [("r", "freed")]


def test_a_dead_workers_lease_lasts_no_longer_for_a_clock_that_was_ahead_and_is_set_back(
    store: Store,
) -> None:
    """Five minutes ahead for a moment: the last beat before the worker's death is of then."""
    new_run(store)
    sweep(store)
    granted = claim(store)
    later(store, 300_000)
    store.rounds.extend([("r", granted.token, "")])
    sweep(store)
    later(store, -299_000)
    assert sweep(store) == [("r", "in_line")] and due_in(store) == LEASE
    assert sweep_after(store, LEASE) == [("r", "freed")]


def test_a_clock_set_back_wakes_nobody_before_its_time(store: Store) -> None:
    new_run(store, phase="waiting", delay=60_000)
    sweep(store)
    later(store, -LEASE)
    assert sweep(store) == [("r", "in_line")] and due_in(store) == 60_000 + LEASE


def test_a_clock_set_back_is_a_silence(store: Store) -> None:
    new_run(store)
    advance(store, 60_000)
    sweep(store)
    store.now = START + 10_000
    claim(store)
    store.redis.hset(store.keys.run("r"), "lease_until", START + 10_500)
    store.redis.zadd(store.keys.due, {"r": START + 10_500})
    assert sweep(store) == []
    assert sweep_after(store, 500) == [("r", "spared")]


def test_a_second_silence_spares_the_rounds_that_beat_in_between(store: Store) -> None:
    new_run(store)
    sweep(store)
    granted = claim(store)
    for _ in range(2):
        assert silence(store, 2 * LEASE) == [("r", "spared")]
        advance(store, 1_000)
        store.rounds.extend([("r", granted.token, "")])
    assert hash_of(store)["losses"] == "0"


def test_a_spared_round_that_did_not_beat_is_not_spared_by_a_second_silence(store: Store) -> None:
    """The dead stay dead, however often the sweepers stall."""
    new_run(store)
    sweep(store)
    claim(store)
    assert silence(store, 2 * LEASE) == [("r", "spared")]
    assert silence(store, 2 * LEASE) == [("r", "freed")]


def test_every_round_is_spared_by_itself(store: Store) -> None:
    sweep(store)
    for run_id in ("a", "b"):
        new_run(store, run_id)
        claim(store, run_id)
    assert sorted(word for run, word in silence(store, LEASE + 1)) == ["spared", "spared"]
    sweep_after(store, LEASE)
    assert {hash_of(store, run_id)["losses"] for run_id in ("a", "b")} == {"1"}


def test_a_claim_after_the_loss_may_be_spared_anew(store: Store) -> None:
    new_run(store)
    sweep(store)
    claim(store)
    silence(store, LEASE + 1)
    sweep_after(store, LEASE)
    claim(store)
    assert "spared" not in hash_of(store)
    assert silence(store, LEASE + 1) == [("r", "spared")]


def test_a_round_past_its_own_limit_is_not_spared_for_ever_though_its_worker_beats(
    store: Store,
) -> None:
    """round limit lapses in a silence > spared > a beat sets the lease back to the limit > spared >
    ...
    """
    new_run(store, fields={"round_timeout": "10000"})
    sweep(store)
    token = claim(store).token
    while clock(store) < START + 13_000:
        advance(store, 1_000)
        store.rounds.extend([("r", token, "")])
    words = [word for _, word in silence(store, LEASE)]
    for _ in range(30):
        advance(store, 500)
        store.rounds.extend([("r", token, "")])
        words += [word for _, word in sweep(store)]
    assert words.count("spared") <= 1, "spared once"
    assert "overran" in words, "a round that hangs is freed at last"
