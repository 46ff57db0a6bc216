"""The journal of a step, used by several threads."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from perdure.flows.core.json_values import canonical
from perdure.flows.core.round_journal import Journal, spent_by_lost, with_spent


class SlowJournal(Journal):
    """A journal whose first write takes until another thread has written, if it can."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[str] = []
        self.has_begun, self.has_written = threading.Event(), threading.Event()

    def write(self, text: str) -> None:
        if not self.has_begun.is_set():
            self.has_begun.set()
            self.has_written.wait(0.2)
        self.written.append(text)
        self.has_written.set()


def test_no_thread_stores_intents_without_those_of_another() -> None:
    journal = SlowJournal()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(journal.intend, "a")
        assert journal.has_begun.wait(5)
        second = pool.submit(journal.intend, "b")
        first.result(), second.result()
    assert journal.written == ["a", "a\nb"]


def test_what_lost_attempts_had_spent_for_their_records_is_known() -> None:
    recorded = [
        canonical(with_spent({"result": 1}, attempt, amounts))
        for attempt, amounts in (
            (1, {"tokens": 5}),
            (2, {"tokens": 70, "money": 0.5}),
            (3, {"tokens": 900}),
            (3, {}),
        )
    ]
    recorded += ["1", "null", canonical(["~spent"]), canonical('"~spent":['), canonical([{"a": 1}])]
    assert spent_by_lost(recorded, 0) == {"tokens": 975, "money": 0.5}
    assert spent_by_lost(recorded, 1) == {"tokens": 970, "money": 0.5}
    assert spent_by_lost(recorded, 2) == {"tokens": 900}
    assert spent_by_lost(recorded, 3) == spent_by_lost([], 0) == {}
