"""WorkerInfo: how long a worker has been silent, whether it is alive, and how clients see it."""

from __future__ import annotations

import pytest

from perdure.worker.domain.fleet import ALIVE_BEATS, WorkerInfo

WORKER = WorkerInfo("host:7", 10_000.0, {"role": "all", "rounds": 2, "pool": "threads"})


@pytest.mark.parametrize(
    ("now", "silence"), [(9_000, 0.0), (10_000, 0.0), (12_500, 2.5), (60_000, 50.0)]
)
def test_silence_is_the_time_since_the_last_heartbeat_and_never_negative(
    now: int, silence: float
) -> None:
    assert WORKER.silence(now) == silence


def test_a_worker_is_alive_for_ten_heartbeats() -> None:
    last = round(WORKER.beat + 1000 * ALIVE_BEATS * 2.0)
    assert WORKER.is_alive(last, 2.0)
    assert not WORKER.is_alive(last + 1, 2.0)


def test_the_status_is_the_announcement_with_name_and_silence() -> None:
    assert WORKER.status(13_000, 1.0) == {
        "name": "host:7",
        "silent": 3.0,
        "alive": True,
        "role": "all",
        "rounds": 2,
        "pool": "threads",
    }


def test_a_count_that_is_no_number_is_zero() -> None:
    assert WORKER.count("rounds") == 2
    assert WORKER.count("pool") == 0
    assert WORKER.count("slots") == 0
