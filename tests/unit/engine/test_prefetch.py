"""Prefetch: when commits fetch, and from where. With a real worker: tests/e2e/test_fetching.py."""

from __future__ import annotations

import pytest

from perdure.worker.engine.fast import prefetch
from perdure.worker.engine.fast.prefetch import SKIP_EVERY, Prefetcher


def fetches(slots: int = 4, inline: bool = False) -> Prefetcher:
    made = Prefetcher()
    made.begin(["c", "e"], slots, inline)
    return made


def test_nothing_is_fetched_before_the_worker_has_begun() -> None:
    off = Prefetcher()
    assert not off.is_on and not off.queues(1)


def test_nothing_is_fetched_once_the_worker_leaves() -> None:
    made = fetches()
    assert made.is_on
    made.end()
    assert not made.is_on and not made.queues(1)


def test_in_turns_another_list_comes_first() -> None:
    made = fetches()
    assert [made.queues(1)[0] for _ in range(4)] == ["e", "c", "e", "c"]
    assert sorted(made.queues(1)) == ["c", "e"]


def test_of_several_rounds_some_leave_the_next_message_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(prefetch, "SKIP_SECONDS", 0.0)
    made = fetches()
    assert [bool(made.queues(2)) for _ in range(2 * SKIP_EVERY)].count(False) == 2


def test_no_more_often_than_it_takes_to_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefetch, "SKIP_SECONDS", 3600.0)
    made = fetches()
    assert [bool(made.queues(2)) for _ in range(20 * SKIP_EVERY)].count(False) == 1


def test_a_lone_round_always_fetches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefetch, "SKIP_SECONDS", 0.0)
    made = fetches()
    assert all(made.queues(1) for _ in range(3 * SKIP_EVERY))


def test_a_solo_worker_leaves_some_to_others_though_it_plays_one_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(prefetch, "SKIP_SECONDS", 0.0)
    made = fetches(1, inline=True)
    assert [bool(made.queues(1)) for _ in range(SKIP_EVERY)].count(False) == 1


def test_it_stops_where_celery_delivers_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """A prefetched round is claimed: were it never delivered, its lease would lapse each time."""
    made = fetches(slots=2)
    for _ in range(3):
        made.holds(object())
    assert not made.queues(1) and not made.is_on
    assert "commits fetch no more" in caplog.text


def test_what_was_delivered_does_not_count() -> None:
    made = fetches(slots=2)
    for number in range(9):
        made.holds(number)
        made.delivers(number)
    assert made.queues(1) and made.is_on
