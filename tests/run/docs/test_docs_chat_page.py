"""docs/guides/chat-page.md: its agent talks, and books after a person's approval."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from perdure.flows.rounds import registry
from perdure.worker.settings import Settings
from tests.support.example_flows import chat_flow  # noqa: F401 -- registers flows
from tests.support.flow_registry import own_registry
from tests.support.round_driver import driving

if TYPE_CHECKING:
    pass

TEXT = (Path(__file__).parents[3] / "docs/guides/chat-page.md").read_text("utf-8")
BLOCKS = dict(re.findall(r"```python\n# (\S+)\n(.*?)```", TEXT, re.DOTALL))

pytestmark = pytest.mark.settings(flow_modules=("tests.support.example_flows.chat_flow",))


def test_the_agent_talks_and_books_what_a_person_approves(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "assistant.py").write_text(BLOCKS["assistant.py"], "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    own_registry(monkeypatch)
    registry.load_modules(("assistant",))
    with driving(settings.model_copy(update={"flow_modules": ("assistant",)})) as driver:
        talk = driver.client.submit("assistant", "Hello")
        book = driver.client.submit("assistant", "Please book it")
        driver.play()
        assert "Where do you want to go?" in str(driver.client.result(talk, 5))
        driver.client.resume(book.id, "approve")
        driver.play()
        assert driver.client.result(book, 5) == "Done: booked the 08:10 to Oslo."
