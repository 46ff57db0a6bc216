"""docs/guides/steering.md: its flows are played as they stand, and its commands can be given."""

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
from tests.support.runs_in_every_status import play

TEXT = (Path(__file__).parents[3] / "docs/guides/steering.md").read_text("utf-8")
EXAMPLES = dict(re.findall(r"```python\n# (\S+)\n(.*?)```", TEXT, re.DOTALL))


@pytest.fixture
def settings(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    for name, text in EXAMPLES.items():
        (tmp_path / name).write_text(text, "utf-8")
        monkeypatch.delitem(sys.modules, name.removesuffix(".py"), raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    own_registry(monkeypatch)
    modules = tuple(name.removesuffix(".py") for name in EXAMPLES)
    return settings.model_copy(update={"flow_modules": modules})


def test_the_search_looks_where_it_is_told_to(client: Client, settings: Settings) -> None:
    run = client.submit("search", "find it")
    play(settings, run.id, rounds=2)
    assert client.value(run.id, "newest") == "contracts"
    client.say(run.id, "invoices")
    play(settings, run.id)
    assert client.get(run.id).answer == ["contracts", "invoices"]


def test_the_ring_replies(client: Client, settings: Settings) -> None:
    run = client.submit("prices", "sell", max_rounds=1)
    asked = client.signal(run.id, "price", "a camel", key="k")
    play(settings, run.id)
    reply = client.ask(run.id, "a camel", name="price", key="k", timeout=5)
    assert reply == {"price": 12, "of": "a camel"}
    assert asked.number == 1


def test_the_commands_can_be_given() -> None:
    block = re.search(r"```console\n(.*?)```", TEXT, re.DOTALL)
    assert block is not None
    for line in block[1].strip().splitlines():
        _, name, *arguments = shlex.split(line.removeprefix("$ "))
        with click.Context(perdure) as context:
            command = perdure.get_command(context, name)
            assert command is not None
            command.make_context(name, arguments)
