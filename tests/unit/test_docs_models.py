"""The examples of docs/guides/models.md work as printed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from perdure import ControllerExecutorFlow, RoundContext
from perdure.flows.controllers.model import ModelController
from perdure.flows.controllers.model.settings import ModelSettings
from perdure.flows.controllers.model.tool_names import ToolNames
from perdure.flows.core.budgets import Budget
from perdure.flows.loading.load import read_flow
from perdure.worker.cli.main import Commands
from perdure.worker.settings import load_settings

TEXT = (Path(__file__).parents[2] / "docs" / "guides" / "models.md").read_text("utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", TEXT, re.DOTALL)
LINES = [
    line
    for kind, text in BLOCKS
    if kind == "sh"
    for line in text.splitlines()
    if line.startswith("perdure ")
]
LINES += re.findall(r"`(perdure [a-z]+ [^`]*)`", TEXT)


def block(kind: str) -> str:
    [text] = [text for each, text in BLOCKS if each == kind]
    return text


def flow_of_the_guide() -> str:
    return next(text for kind, text in BLOCKS if kind == "yaml" and "flow:" in text)


KEYS_ALONE = [text for kind, text in BLOCKS if kind == "yaml" and "flow:" not in text]


@pytest.mark.parametrize("keys", KEYS_ALONE)
def test_the_keys_for_several_models_can_be_read_as_they_stand(tmp_path: Path, keys: str) -> None:
    lines = "".join(f"    {line}\n" for line in keys.splitlines())
    path = tmp_path / "mine.yaml"
    path.write_text(
        "flow: controller_executor\ncontroller: model\nsubflows_config:\n  Controller:\n" + lines,
        "utf-8",
    )
    flow = read_flow(path)()
    assert isinstance(flow, ControllerExecutorFlow)
    assert isinstance(flow.controller, ModelController)
    settings = flow.controller.settings
    assert settings.models or flow.allowed_models or settings.compaction


@pytest.mark.parametrize("line", LINES)
def test_each_command_line_has_the_options_that_it_shows(line: str) -> None:
    _, name, *words = shlex.split(line)
    command = Commands("perdure").get_command(None, name)  # type: ignore[arg-type]
    assert command is not None
    known = {option for parameter in command.params for option in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= known


def test_the_settings_can_be_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "worker.toml").write_text(block("toml"), "utf-8")
    monkeypatch.chdir(tmp_path)
    settings = load_settings()
    assert (settings.model, settings.model_key) == ("openai:gpt-5-mini", "env:TEAM_KEY")


def test_the_flow_can_be_read_and_its_prompt_filled_in(tmp_path: Path) -> None:
    (tmp_path / "researcher.yaml").write_text(flow_of_the_guide(), "utf-8")
    flow = read_flow(tmp_path / "researcher.yaml")()
    assert isinstance(flow, ControllerExecutorFlow) and isinstance(flow.controller, ModelController)
    assert flow.budgets == {"tokens": 200_000, "money": 0.5}
    for spent, brief in ((0, False), (190_000, True)):
        context = RoundContext(
            "Why?",
            {"topic": "tides"},
            budgets={"tokens": Budget(200_000, spent)},
            commands=flow.schemas(),
        )
        system, user, *_ = flow.controller.messages(context, ToolNames(()), tools=True)
        assert (
            system.text.startswith("You answer questions about tides")
            and user.text.splitlines()[0] == "Why?"
        )
        assert ("Be brief now." in system.text) == brief


def test_the_table_has_every_key_and_its_default() -> None:
    rows = dict(re.findall(r"^\| (`.*?`) \| .* \| (.*?) \|$", TEXT, re.MULTILINE))
    named = {key for row in rows for key in re.findall(r"`(\w+)`", row)}
    assert named >= set(ModelSettings.model_fields)
    settings = ModelSettings()
    assert (
        rows["`timeout_seconds`"] == f"{settings.timeout_seconds:g}"
        and rows["`reply`"] == f"`{settings.reply}`"
    )
    assert (
        rows["`window`"]
        == f"{settings.window.first}, {settings.window.last}, {settings.window.tokens}"
    )
