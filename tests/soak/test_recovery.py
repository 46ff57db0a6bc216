"""A recovery: the next try of a round that was in flight when its process was lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.soak.collect import load, save
from tests.soak.history import Call, Child, Effect, End, Event, Family, Fault, History, Read
from tests.soak.ledger import Ledger
from tests.soak.recovery import recoveries, share

KILL = Fault("kill_worker", at=10.0, fired=True, over=10.1, hit="w1 7")


def tried(step: int, at: float, pid: int, attempt: int = 1) -> Effect:
    return Effect("r", step, attempt, f"r:{step}", "tried", at, pid)


def found(
    *effects: Effect,
    fault: Fault = KILL,
    others: tuple[Fault, ...] = (),
    calls: tuple[Call, ...] = (),
) -> list[tuple[float, bool]]:
    after = recoveries([fault, *others], {fault: [7]}, effects, calls)
    return [(round(each.seconds, 3), each.alone) for each in after]


def test_the_next_try_of_the_round_that_was_lost() -> None:
    assert found(tried(0, 8.0, 3), tried(1, 9.0, 7), tried(1, 13.5, 3, 2), tried(2, 14.0, 3)) == [
        (3.5, True)
    ]


def test_a_round_that_had_been_committed_was_not_lost() -> None:
    assert found(tried(1, 9.0, 7), tried(2, 10.2, 3)) == []


def test_a_round_in_flight_elsewhere_was_not_lost() -> None:
    assert found(tried(1, 9.0, 3), tried(1, 13.5, 4, 2)) == []


def test_after_a_warm_shutdown_the_runs_next_round_counts() -> None:
    leave = Fault("warm_shutdown", at=10.0, fired=True, over=12.0, hit="w1 7")
    assert found(tried(1, 9.0, 7), tried(2, 10.2, 3), fault=leave) == [(0.2, True)]


def test_a_run_that_a_client_stopped_meanwhile_does_not_count() -> None:
    stop = Call("stop", "r", 11.0, 11.1, "acknowledged")
    assert found(tried(1, 9.0, 7), tried(1, 13.5, 3, 2), calls=(stop,)) == []


@pytest.mark.parametrize(
    ("at", "over", "alone"),
    [(1.0, 2.0, True), (1.0, 6.0, False), (12.0, 12.5, False), (14.0, 15.0, True)],
)
def test_it_is_told_apart_whether_the_server_was_well(at: float, over: float, alone: bool) -> None:
    down = Fault("kill_server", at, True, over)
    assert found(tried(1, 9.0, 7), tried(1, 13.5, 3, 2), others=(down,)) == [(3.5, alone)]


def test_shares() -> None:
    assert (
        share([3.0, 1.0, 2.0], 0.5) == 2.0
        and share([float(n) for n in range(200)], 0.99) == 198.0
        and share([1.0], 0.99) == 1.0
    )


def test_a_history_that_was_kept_is_the_same(tmp_path: Path) -> None:
    history = History(
        calls=[Call("submit", "r", 1.0, 2.0, "acknowledged", {"status": "queued"}, "goal")],
        reads=[Read("c", "r", 3.0, "running", 0, 1)],
        events=[Event("r", "committed", 4.0, 0, 1, {"took": "5"})],
        effects=[tried(0, 4.0, 7)],
        faults=[KILL],
        ends=[End("r", "completed", 0, 1, [0])],
        asked_faults=frozenset({"kill_worker"}),
        rounds=1,
        children=[Child("x", "r", "0.0", 0)],
        families=[Family("r", 1, [{"place": 0, "seen": [0]}], "goal")],
        left={"live": 0},
    )
    assert load(save(history, tmp_path / "h.json")) == history


def test_the_ledger_reads_back_what_was_written_and_its_receiver_applies_a_key_once(
    tmp_path: Path,
) -> None:
    ledger = Ledger(tmp_path)
    for attempt in (1, 2):
        ledger.tried("r", 0, attempt, "r:0")
        ledger.apply("r", 0, attempt, "r:0")
    ledger.apply("r", 1, 1, "r:1")
    effects = [(effect.what, effect.step, effect.attempt) for effect in Ledger(tmp_path).effects()]
    assert sorted(effects) == [
        ("applied", 0, 1),
        ("applied", 1, 1),
        ("tried", 0, 1),
        ("tried", 0, 2),
    ]
