"""docs/guides/notes.md: its flows are played as they stand, and its commands and settings can be
given.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from perdure import Client, Command, Finish, RunStatus, Settings
from perdure.flows.controllers.model import ModelController
from perdure.flows.controllers.model.setting_keys import NoteKeys
from perdure.flows.loading import sources
from perdure.flows.rounds import registry
from perdure.testing import FakeModel
from perdure.worker.cli.main import perdure
from tests.support.flow_registry import own_registry
from tests.support.round_driver import Driver, driving

TEXT = (Path(__file__).parents[3] / "docs/guides/notes.md").read_text("utf-8")
FILES = dict(re.findall(r"```\w+\n# (\S+)\n(.*?)```", TEXT, re.DOTALL))
[STORY] = re.findall(r"```python\n(from perdure import Client.*?)```", TEXT, re.DOTALL)
MODULES = ("trips", "shelf", "own_trips")


@pytest.fixture
def driver(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    own_registry(monkeypatch)
    for name, text in FILES.items():
        (tmp_path / Path(name).name).write_text(text, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    for module in MODULES:  # another page has an example of the same name
        sys.modules.pop(module, None)
    registry.load_modules(["trips", "own_trips"])
    sources.register_file(tmp_path / "companion.yaml")
    with driving(settings) as made:
        yield made
    for module in MODULES:
        sys.modules.pop(module, None)


def story(client: Client, driver: Driver, text: str) -> int:
    """Run the story; return how many results it shows.

    Each is the value of the line before it.
    """
    own: dict[str, Any] = {"client": client}
    lines = text.replace("client = Client()", "").splitlines()
    shown = 0
    for line, result in zip(lines, [*lines[1:], ""], strict=True):
        if line.startswith("client.wait"):
            driver.play()
            assert result == f'# "{eval(line, own)}"'
            shown += 1
        elif not line.startswith(("#", "from ")):
            exec(line, own)
    return shown


def test_a_traveller_is_known_again(client: Client, driver: Driver) -> None:
    assert story(client, driver, STORY) == 3
    assert [note.text for note in client.notes("traveller:ada")] == ["window"]


def test_the_same_with_a_store_of_ones_own(client: Client, driver: Driver) -> None:
    assert story(client, driver, STORY.replace('"trips"', '"own_trips"')) == 3
    assert client.note_namespaces() == []
    store = sys.modules["shelf"].shelf.open()
    assert [note.text for note in store.search("traveller:ada", "wind", 9)] == ["window"]
    assert store.forget("traveller:ada", "seat") and not store.forget("traveller:ada", "seat")
    sys.modules["shelf"].shelf.close()


def test_the_companion_remembers(client: Client, driver: Driver) -> None:
    script = [Command("remember", {"text": "likes tea", "key": "drink"}), Finish("noted")]
    for _ in range(2):
        with FakeModel(script, name="companion") as model:
            run = client.submit("companion", "I like tea", submitted_by="ada")
            driver.play()
        assert client.get(run.id).status is RunStatus.COMPLETED
    assert "likes tea" in model.requests[0].messages[1].text
    offered = [each["name"] for each in model.requests[0].commands]
    assert offered == ["ask_user", "remember", "recall", "forget", "finish"]


def test_all_keys_are_those_that_are_shown_with_their_defaults() -> None:
    [shown] = re.findall(r"^notes: .*$", TEXT, re.MULTILINE)
    keys = yaml.safe_load(shown)["notes"]
    assert ModelController(notes=keys).settings.notes == NoteKeys(namespace="user:{submitted_by}")
    assert set(keys) == set(NoteKeys.model_fields)
    defaults = Settings()
    assert f"{defaults.max_notes:,} notes (`max_notes`)" in TEXT
    assert f"{defaults.max_note_bytes:,} bytes (`max_note_bytes`)" in TEXT


def test_the_commands_can_be_given() -> None:
    commands = re.findall(r"`perdure notes (\w+) ([^`]*)`", TEXT)
    assert {name for name, _ in commands} == {"list", "show", "put", "delete"}
    with click.Context(perdure) as context:
        notes = perdure.get_command(context, "notes")
    assert isinstance(notes, click.Group)
    for name, arguments in commands:
        with click.Context(notes) as context:
            command = notes.get_command(context, name)
            assert command is not None
            command.make_context(name, shlex.split(arguments))


def test_the_lines_of_python_do_what_the_page_says(client: Client) -> None:
    calls = re.findall(r"`(client\.\w+\(.*?\))`", TEXT)
    own = {"client": client}
    found = [eval(call, own) for call in ('client.put_note("user:ada", "x")', *calls)]
    assert len(found) == 6
    assert found[-2:] == [1, 1] and found[3].key == "drink"
