"""The timeline of a run on its page: a column for each role with rounds, and each result once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from perdure.worker.domain.event import Event
from perdure.worker.presentation.timeline import row_of

if TYPE_CHECKING:
    from perdure.worker.web.dashboard.timeline import Entry

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MAIL = {"command": "mail", "args": {"text": "hello"}, "observation": "sent", "did": ["mail"]}


def entry(step: int, role: str, **data: object) -> Entry:
    from perdure.worker.web.dashboard.timeline import Entry

    at = NOW + timedelta(seconds=step)
    event = Event(f"{step}-0", "committed", at, step, 1, role.title(), data)
    return Entry(event, row_of(event), role)


def test_only_roles_that_have_rounds_have_a_column() -> None:
    from perdure.worker.web.dashboard.timeline import Entry, Timeline

    submitted = Event("0-0", "submitted", NOW, 0, 1, "Controller", {})
    others = [Entry(submitted, row_of(submitted), "controller")]
    assert Timeline([entry(1, "executor"), *others]).roles == ["executor"]
    both = Timeline([entry(2, "executor"), entry(1, "controller"), *others])
    assert both.roles == ["controller", "executor"]


def test_a_step_is_named_once_beside_its_result() -> None:
    one = entry(1, "executor", **MAIL, replayed=2)
    assert (one.command, one.result) == ("mail hello", "sent · 2 replayed")
    several = entry(1, "executor", did=["mail", "ship"])
    assert (several.command, several.result) == ("", "mail, ship")
    plain = entry(1, "executor", command="add", args={"a": 1}, observation=3)
    assert (plain.command, plain.result) == ("add 1", "3")
