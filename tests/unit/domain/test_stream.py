"""The order of a run's events and of the text between them."""

from __future__ import annotations

from datetime import UTC, datetime

from perdure.worker.domain.event import Event
from perdure.worker.domain.stream import StreamReader, TextEntry


def event(entry_id: str, kind: str, step: int, attempt: int = 1) -> Event:
    return Event(entry_id, kind, datetime.now(UTC), step, attempt, "Controller")


def text(entry_id: str, step: int, number: int, attempt: int = 1) -> TextEntry:
    place = {"step": str(step), "attempt": str(attempt), "number": str(number)}
    return TextEntry(entry_id, {**place, "kind": "text", "part": "", "text": "x"})


def test_in_a_millisecond_text_is_before_the_events_of_its_round_and_behind_those_before_it() -> (
    None
):
    found = StreamReader().items(
        [
            event("1-0", "submitted", 0),
            event("7-0", "committed", 0),
            event("7-1", "failed", 1),
            event("7-2", "committed", 1, 2),
            text("5-0", 0, 0),
            text("7-0", 0, 1),
            text("7-1", 0, 2),
            text("7-2", 1, 0),
            text("7-3", 1, 0, 2),
        ]
    )
    assert [(item.type, item.step, item.attempt) for item in found] == [
        ("submitted", 0, 1),
        ("text", 0, 1),
        ("text", 0, 1),
        ("text", 0, 1),
        ("committed", 0, 1),
        ("text", 1, 1),
        ("retracted", 1, 1),
        ("failed", 1, 1),
        ("text", 1, 2),
        ("committed", 1, 2),
    ]
