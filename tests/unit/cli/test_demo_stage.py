"""The demo's account of the recovery, from one look at the run and its events."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from perdure.worker.cli.processes.demo_stage import DemoStage

KILLED = datetime(2026, 1, 1, tzinfo=UTC)


def after(seconds: float) -> datetime:
    return KILLED + timedelta(seconds=seconds)


class Notes(list[str]):
    """The view's notes."""

    def note(self, text: str) -> None:
        self.append(text)


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Any:
    made = object.__new__(DemoStage)
    made.killed_step, made.recovered = 4, None
    made._lost_at, made._killed_at = None, KILLED.timestamp()
    return made


def leased(seconds: float) -> Any:
    details = {"claimed_at": after(seconds).isoformat()}
    return SimpleNamespace(phase="leased", state=SimpleNamespace(step=4), details=details)


def lost(seconds: float) -> Any:
    return SimpleNamespace(type="lost", step=4, at=after(seconds), data={})


def test_the_claim_of_the_killed_worker_is_not_taken_for_the_recovery(stage: Any) -> None:
    view = Notes()
    stage._see_recovery(view, leased(-0.1), [lost(4.2)])
    assert view == [] and stage.recovered is None and stage.lost
    stage._see_recovery(view, leased(4.4), [])
    assert view == ["another worker claimed the step 4.4 s after the kill"]


def test_a_step_that_was_committed_meanwhile_was_claimed_before(stage: Any) -> None:
    view = Notes()
    committed = SimpleNamespace(type="committed", step=4, at=after(6.0), data={"took": "1500"})
    stage._see_recovery(view, leased(-0.1), [lost(4.2), committed])
    assert view == ["another worker claimed the step 4.5 s after the kill"]
