"""docs/guides/from-celery-chains.md: its chain and its flow have the same result."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from perdure.flows.rounds import registry
from tests.support.flow_player import play_through

TEXT = (Path(__file__).parents[2] / "docs/guides/from-celery-chains.md").read_text("utf-8")


def test_the_chain_and_the_flow_give_the_same_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_definitions", dict(registry._definitions))
    modules: dict[str, dict[str, Any]] = {}
    for name, code in re.findall(r"```python\n# (\w+)\.py\n(.*?)```", TEXT, re.DOTALL):
        modules[name] = {"__name__": f"moving_{name}"}
        exec(code, modules[name])
    chain = modules["chain"]
    modules["chain"]["app"].conf.update(task_always_eager=True, result_backend="cache+memory://")
    answer = (chain["resize"].s("cat.png") | chain["upload"].s()).delay().get()
    played = play_through(modules["flow"]["PublishImage"], "cat.png")
    assert played.end is not None and played.end.answer == answer == "cat.png resized, uploaded"
    assert callable(modules["start"]["start"])
