"""The search for events to notify of: each is found once, even if looked at twice, and none is of
the time before the rule.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from perdure.worker.features.notifications.event_finder import (
    CLOCK_BACK,
    OVERLAP,
    WAITING,
    EventFinder,
)
from perdure.worker.features.notifications.records import (
    DONE_KEPT,
    NotificationRecords,
    RestingRuns,
    key,
)
from perdure.worker.features.notifications.rules import NotificationRule
from perdure.worker.store import Store
from tests.support.child_runs import child_id, end_child, family
from tests.support.runs import (
    advance,
    claim,
    commit_end,
    fail_round,
    new_run,
    pause_here,
    resume,
    retry,
    stop,
)

Looks = Callable[..., int]


@pytest.fixture
def records(store: Store) -> NotificationRecords:
    return NotificationRecords(store)


def finder_of(store: Store, **rules: str | list[str]) -> EventFinder:
    made = {
        name: NotificationRule.model_validate({"on": on, "command": ["x"]})
        for name, on in rules.items()
    }
    return EventFinder(store, NotificationRecords(store), made, lambda run_id: None)


def look(finder: EventFinder, store: Store, ms: int = 100) -> int:
    """Look some time later, as if the last search had cost nothing."""
    advance(store, ms)
    finder._next_search = 0.0
    return finder.look()


def told(records: NotificationRecords) -> list[tuple[str, str, str]]:
    return sorted((each.rule, each.event, each.run_id) for each in records.waiting(100))


def end(store: Store, run_id: str = "r") -> None:
    new_run(store, run_id)
    assert commit_end(store, claim(store, run_id))[0] == "ok"


def test_an_event_is_found_once_by_each_rule_that_wants_it(
    store: Store, records: NotificationRecords
) -> None:
    finder = finder_of(store, all=["ended", "waiting", "in_doubt"], bad="errored")
    assert look(finder, store) == 0
    end(store, "done")
    new_run(store, "bad")
    fail_round(store, claim(store, "bad"), max_failures=1)
    new_run(store, "asks")
    pause_here(store, claim(store, "asks"))
    new_run(store, "gone")
    stop(store, run_id="gone")
    assert look(finder, store) == 5
    assert told(records) == [
        ("all", "completed", "done"),
        ("all", "errored", "bad"),
        ("all", "stopped", "gone"),
        ("all", "waiting", "asks"),
        ("bad", "errored", "bad"),
    ]
    assert look(finder, store) == 0 and look(finder, store, 5_000) == 0
    # A worker that takes over looks back, and finds nothing new.
    other = finder_of(store, all=["ended", "waiting", "in_doubt"], bad="errored")
    assert look(other, store) == 0 and look(other, store) == 0
    assert len(told(records)) == 5


def test_a_worker_that_takes_over_finds_what_happened_meanwhile(
    store: Store, records: NotificationRecords
) -> None:
    look(finder_of(store, ops=["ended", "waiting"]), store)
    end(store)
    new_run(store, "asks")
    pause_here(store, claim(store, "asks"))
    assert look(finder_of(store, ops=["ended", "waiting"]), store, 3_600_000) == 2


def test_what_was_delivered_is_not_sent_again_though_it_is_found_again(
    store: Store, records: NotificationRecords
) -> None:
    look(finder_of(store, ops="ended"), store)
    end(store)
    assert look(finder_of(store, ops="ended"), store) == 1
    [found] = records.waiting(5)
    records.delivered(found, store.time())
    assert look(finder_of(store, ops="ended"), store) == 0
    assert records.waiting(5) == [] and records.get([found.id]) == [None]
    # Its id is forgotten long after no look can find it any more.
    finder = finder_of(store, ops="ended")
    for _ in range(3):
        look(finder, store, DONE_KEPT)
    assert not store.redis.exists(key(store.keys, "done"))


def test_a_new_rule_tells_of_nothing_that_was_before_it(
    store: Store, records: NotificationRecords
) -> None:
    finder = finder_of(store, old="ended")
    look(finder, store)
    end(store, "before")
    new_run(store, "asks")
    pause_here(store, claim(store, "asks"))
    advance(store, 1)
    both = finder_of(store, old="ended", new=["ended", "waiting"])
    for _ in range(OVERLAP // 100 + 5):
        look(both, store)
    assert told(records) == [("old", "completed", "before")]
    end(store, "after")
    look(both, store)
    assert [each for each in told(records) if each[0] == "new"] == [("new", "completed", "after")]


def test_a_new_rule_tells_of_all_since_its_worker_began_however_late_the_first_look(
    store: Store, records: NotificationRecords
) -> None:
    end(store, "before")
    advance(store, 1)
    finder = finder_of(store, ops=["ended", "waiting"])
    finder.begin()
    end(store, "after")
    new_run(store, "asks")
    pause_here(store, claim(store, "asks"))
    assert look(finder, store, 5_000) == 2
    assert [each[2] for each in told(records)] == ["after", "asks"]
    # A worker that first looks a day later does not report that day.
    late = finder_of(store, late="ended")
    late.begin()
    end(store, "long ago")
    assert look(late, store, 86_400_000) == 0


def test_a_server_that_stands_still_does_not_put_off_the_next_search(store: Store) -> None:
    class StandsStill(RestingRuns):
        paused = 0

        def entered(self, index: str, since: int) -> list[tuple[str, int]]:
            StandsStill.paused += 1
            store.redis.client_pause(300)
            return super().entered(index, since)

    finder = finder_of(store, ops="waiting")
    finder._runs = StandsStill(store)
    look(finder, store)
    assert StandsStill.paused == len(WAITING)
    assert finder._next_search < time.monotonic() + 10  # of 60 s, 100 times its duration


def test_a_worker_without_a_rule_leaves_the_events_of_the_rule_to_others(
    store: Store, records: NotificationRecords
) -> None:
    new = finder_of(store, one="ended", two="ended")
    look(new, store)
    end(store)
    assert look(finder_of(store, one="ended"), store, 60_000) == 1
    assert look(finder_of(store, one="ended", two="ended"), store, 60_000) == 1


def test_a_clock_that_goes_back_hides_no_event(store: Store, records: NotificationRecords) -> None:
    finder = finder_of(store, ops=["ended", "waiting"])
    for _ in range(30):
        look(finder, store, 1_000)
    advance(store, -CLOCK_BACK // 3)
    end(store)
    new_run(store, "asks")
    pause_here(store, claim(store, "asks"))
    assert look(finder, store) == 2
    end(store, "later")
    assert look(finder, store) == 1


def test_each_end_and_each_question_of_a_run_is_an_event_of_its_own(
    store: Store, records: NotificationRecords
) -> None:
    finder = finder_of(store, ops=["ended", "waiting"])
    look(finder, store)
    new_run(store)
    for _ in range(2):
        fail_round(store, claim(store), max_failures=1)
        assert look(finder, store) == 1
        advance(store, 1)
        retry(store, op=f"retry-{store.now}")
    pause_here(store, claim(store))
    assert look(finder, store) == 1
    # It is stopped and asks the same question again.
    stop(store)
    assert look(finder, store) == 1
    advance(store, 1)
    resume(store, op="again")
    assert look(finder, store) == 1
    assert [each.event for each in records.waiting(9)].count("waiting") == 2


def test_a_run_that_goes_on_before_it_is_looked_at_is_no_event(
    store: Store, records: NotificationRecords
) -> None:
    finder = finder_of(store, ops=["ended", "waiting"])
    look(finder, store)
    new_run(store)
    fail_round(store, claim(store), max_failures=1)
    retry(store)
    assert look(finder, store) == 0


def test_the_end_of_a_child_is_its_parents_business_and_its_question_is_not(
    store: Store, records: NotificationRecords
) -> None:
    finder = finder_of(store, ops=["ended", "waiting"])
    look(finder, store)
    asks, ends = family(store)
    pause_here(store, claim(store, asks))
    end_child(store, ends)
    assert look(finder, store) == 1
    assert told(records) == [("ops", "waiting", asks)]
    assert asks == child_id(store, 0)


def test_more_events_than_a_page_are_all_found(
    store: Store, records: NotificationRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdure.worker.features.notifications.event_finder.PAGE", 4)
    monkeypatch.setattr("perdure.worker.features.notifications.event_finder.MOST_PAGES", 2)
    finder = finder_of(store, ops="ended")
    look(finder, store)
    for number in range(20):
        end(store, f"r{number}")
        advance(store, 1)
    found = 0
    for _ in range(10):
        found += look(finder, store)
    assert found == 20 and len(told(records)) == 20


def test_stopped_runs_are_read_only_after_another_stop(
    store: Store, records: NotificationRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    finder = finder_of(store, ops="stopped")
    look(finder, store)
    read: list[str] = []
    entered = finder._runs.entered

    def noted(index: str, since: int) -> list[tuple[str, int]]:
        read.append(index)
        return entered(index, since)

    monkeypatch.setattr(finder._runs, "entered", noted)
    look(finder, store)
    assert read == []
    new_run(store)
    stop(store)
    assert look(finder, store) == 1 and read == ["stopped"]
    look(finder, store)
    assert read == ["stopped"]


def test_a_worker_delivers_alone_until_it_lets_go_or_is_silent(
    store: Store, records: NotificationRecords
) -> None:
    assert records.hold("a", 60_000) and records.hold("a", 60_000)
    assert not records.hold("b", 60_000)
    records.let_go("b")
    assert not records.hold("b", 60_000)
    records.let_go("a")
    assert records.hold("b", 60_000) and not records.hold("a", 60_000)
