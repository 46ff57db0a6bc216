"""docs/guides/files.md: its flow is played, its story has the results that it shows, and its
commands can be given.
"""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from perdure import Client, Command, Finish, Settings
from perdure.testing import FakeModel
from perdure.worker.cli.main import perdure
from tests.support.flow_registry import own_registry
from tests.support.round_driver import driving

TEXT = (Path(__file__).parents[3] / "docs/guides/files.md").read_text("utf-8")
[FLOW] = re.findall(r"```python\n# shop.py\n(.*?)```", TEXT, re.DOTALL)
[STORY] = re.findall(r"```python\n(from perdure import Client.*?)```", TEXT, re.DOTALL)
[REFERENCE] = re.findall(r"```json\n(.*?)\n```", TEXT)
SCRIPT = [
    Command("count_lines", {"name": "orders.csv"}),
    Command("draw_sales", {}),
    Finish("Three hats. The sales are in 3-sales.png."),
]


@pytest.fixture
def settings(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    (tmp_path / "shop.py").write_text(FLOW, "utf-8")
    (tmp_path / "orders.csv").write_text("hat,3\nhat,5\n", "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "shop", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    own_registry(monkeypatch)
    return settings.model_copy(update={"flow_modules": ("shop",)})


def test_the_shop_answers(client: Client, settings: Settings) -> None:
    own: dict[str, Any] = {"client": client}
    lines = STORY.replace("client = Client()", "").splitlines()
    shown = 0
    with FakeModel(SCRIPT) as model, driving(settings) as worker:
        for line, result in zip(lines, [*lines[1:], ""], strict=True):
            if result.startswith("# "):
                worker.play()
                assert result == f"# {eval(line, own)!r}"
                shown += 1
            elif not line.startswith("#"):
                exec(line, own)
    assert shown == 3
    first, *_, last = model.requests
    assert [each.name for message in first.messages for each in message.files] == [
        "window.jpg",
        "orders.csv",
    ]
    assert [each.name for each in last.messages[-1].files] == ["3-sales.png"]
    [counted, drawn] = client.transcript(own["run"].id)["history"]
    assert counted["observation"] == 2
    assert drawn["observation"] == {"chart": eval(REFERENCE)}


def test_the_commands_can_be_given() -> None:
    commands = re.findall(r"`perdure (\w+) ([^`]*)`", TEXT)
    assert [name for name, _ in commands] == ["submit", "show", "show"]
    for name, arguments in commands:
        with click.Context(perdure) as context:
            command = perdure.get_command(context, name)
            assert command is not None
            command.make_context(name, shlex.split(arguments))
