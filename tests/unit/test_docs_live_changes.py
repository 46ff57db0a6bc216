"""docs/guides/live-changes.md: its flow can be changed in the middle of a run, as the page says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from perdure import Flow
from perdure.flows.rounds import registry
from tests.support.flow_player import play_through

TEXT = (Path(__file__).parents[2] / "docs/guides/live-changes.md").read_text("utf-8")


@pytest.fixture
def versions(monkeypatch: pytest.MonkeyPatch) -> list[type[Flow]]:
    """The flow before and after the change."""
    monkeypatch.setattr(registry, "_definitions", dict(registry._definitions))
    made = []
    for code in re.findall(r"```python\n(# \w+\.py\n.*?)```", TEXT, re.DOTALL):
        module: dict[str, Any] = {"__name__": f"onboarding{len(made)}"}
        registry._definitions.pop("onboarding", None)
        exec(code, module)
        made.append(module["Onboarding"])
    return made


def done_by(versions: list[type[Flow]], rounds: int) -> list[Any]:
    """Return the answers of a run whose code changed after this number of rounds."""
    old, new = versions
    played = 0

    def flow_now() -> Flow:
        nonlocal played
        played += 1  # two flow objects are made before the first round
        return old() if played <= rounds + 2 else new()

    return play_through(flow_now).observations


def test_each_live_run_ends_with_each_step_once(versions: list[type[Flow]]) -> None:
    assert done_by(versions, 0) == ["created", "checked", "welcomed"]
    assert done_by(versions, 2) == ["created", "checked", "welcomed"]
    assert done_by(versions, 4) == ["created", "welcomed"]
