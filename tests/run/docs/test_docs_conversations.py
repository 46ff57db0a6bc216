"""docs/guides/conversations.md: its example is played as printed, and its commands are accepted."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import click
import pytest

from perdure import Client, Settings
from perdure.worker.cli.main import perdure
from tests.support.flow_registry import own_registry
from tests.support.round_driver import driving
from tests.support.runs_in_every_status import play

TEXT = (Path(__file__).parents[3] / "docs/guides/conversations.md").read_text("utf-8")
[FLOW] = re.findall(r"```python\n# chat.py\n(.*?)```", TEXT, re.DOTALL)
[DESK] = re.findall(r"```python\n# desk.py\n(.*?)```", TEXT, re.DOTALL)
[STORY] = re.findall(r"```python\n(from perdure import Client.*?)```", TEXT, re.DOTALL)


@pytest.fixture
def settings(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    for name, text in (("chat", FLOW), ("desk", DESK)):
        (tmp_path / f"{name}.py").write_text(text, "utf-8")
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    own_registry(monkeypatch)
    return settings.model_copy(update={"flow_modules": ("chat", "desk")})


def test_the_assistant_answers(client: Client, settings: Settings) -> None:
    """Each line of the story whose result the page shows has this result."""
    own = {"client": client, "play": lambda run_id: play(settings, run_id)}
    lines = STORY.replace("client = Client()", "").splitlines()
    shown = 0
    for line, result in zip(lines, [*lines[1:], ""], strict=True):
        if line.startswith("client.wait"):
            exec("play(sent.run_id)", own)
            assert result == f'# "{eval(line, own)}"'
            shown += 1
        elif not line.startswith(("#", "from ")):
            exec(line, own)
    assert shown == 2


def test_a_conversation_is_handed_over(client: Client, settings: Settings) -> None:
    """The desk has billing answer one message. Then the assistant takes and keeps the thread."""
    answers = []
    flows = []
    for text, flow in [
        ("hello", "desk"),
        ("my invoice is wrong", None),
        ("thanks", "assistant"),
        ("bye", None),
    ]:
        sent = client.send("bo", text, flow=flow)
        with driving(settings) as driver:
            driver.play()
        done = client.get(sent.run_id)
        answers.append(done.answer)
        flows.append(done.flow)
    assert flows == ["desk", "desk", "assistant", "assistant"]
    assert answers == [
        "What is it about?",
        "Billing has read 3 lines.",
        "You said 'thanks'. Before that I read 4 messages.",
        "You said 'bye'. Before that I read 6 messages.",
    ]


def test_the_commands_can_be_given() -> None:
    commands = re.findall(r"`perdure (\w+) ([^`]*)`", TEXT)
    assert {"send", "thread", "list"} <= {name for name, _ in commands}
    for name, arguments in commands:
        with click.Context(perdure) as context:
            command = perdure.get_command(context, name)
            assert command is not None
            given = arguments.replace("--answer", "--answer 1") if name == "resume" else arguments
            command.make_context(name, shlex.split(given))
