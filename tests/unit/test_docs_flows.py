"""Every example of docs/guides/flows.md runs as it stands there."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from perdure import RoundContext, load_failures, load_modules, make, registered
from perdure.flows.core.names import registered_nodes
from perdure.flows.loading import sources
from perdure.flows.loading.directories import Directories
from perdure.flows.rounds import registry
from tests.support.flow_player import play_through

TEXT = (Path(__file__).parents[2] / "docs" / "guides" / "flows.md").read_text("utf-8")
#: The examples by the file that their first line names.
EXAMPLES = {
    name: f"# {name}\n{text}"
    for name, text in re.findall(r"```\w+\n# (\S+)\n(.*?)```", TEXT, re.DOTALL)
}
MODULES = [Path(name).stem for name in EXAMPLES if name.endswith(".py")]


@pytest.fixture(autouse=True)
def _project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A working directory that holds the examples, found as a worker finds them."""
    registered()
    # Only the shipped flows: other tests of this process have registered flows of their own, some
    # under the examples' names.
    shipped = {
        name: source
        for name, source in registry._definitions.items()
        if registry._is_shipped(source)
    }
    monkeypatch.setattr(registry, "_definitions", shipped)
    monkeypatch.setattr(registry, "_failures", {})
    monkeypatch.setattr(sources, "_directories", Directories())
    for name, text in EXAMPLES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    load_modules(MODULES)
    sources.add_directory(Path("config/flows"))
    yield
    for module in MODULES:
        del sys.modules[module]


def test_every_example_is_a_file_that_loads() -> None:
    assert TEXT.count("```") == 2 * len(EXAMPLES)
    assert {"greeter", "shopping", "writing", "careful"} <= set(registered())
    assert load_failures() == {}


def test_the_example_in_python() -> None:
    played = play_through(lambda: make("greeter"), "Ada Grace")
    assert played.end is not None and played.end.answer == ["Hello, Ada!", "Hello, Grace!"]
    [(name, value)] = tomllib.loads(EXAMPLES["pyproject.toml"])["project"]["entry-points"][
        "perdure.flows"
    ].items()
    assert EntryPoint(name, value, "perdure.flows").load() is sys.modules["greetings"].Greeter


def test_the_example_in_yaml() -> None:
    played = play_through(lambda: make("shopping"), inputs={"things": ["camel", "goat", "hen"]})
    assert played.observations == [5, 4]
    assert played.end is not None and played.end.answer == "goat"


def test_the_ring() -> None:
    played = play_through(lambda: make("writing"), inputs={"letter": "b"})
    assert played.nodes == ["Draft", "Review"] * 3
    assert played.end is not None and played.end.output == {"answer": "bbb", "status": "finished"}


def test_the_node_that_redacts() -> None:
    redact = registered_nodes.named("redact")
    assert redact({"observation": "user=a password=b c"}, RoundContext("g")) == {
        "observation": "user=a password=[redacted] c"
    }


def test_the_person_in_the_ring() -> None:
    played = play_through(
        lambda: make("careful"), inputs={"things": ["camel", "hen"]}, answers=["too much", "fine"]
    )
    assert played.end is not None and played.end.answer == "hen"
    assert [entry["human_feedback"] for entry in played.values["recalled"]] == ["too much", "fine"]


def test_what_is_said_to_ship_ships() -> None:
    import perdure.flows.executors  # noqa: F401
    from perdure.flows.commands.command import registered_commands
    from perdure.flows.commands.controller import registered_controllers
    from perdure.flows.core.names import registered_nodes
    from perdure.flows.rings.circular import resolve

    ships = {
        row[0]: re.findall(r"`(\w+)`", row[1])
        for row in re.findall(r"(?m)^\| (an? \w+) \|.*\| ([^|]*) \|$", TEXT)
    }
    assert all(name in registered_controllers for name in ships["a controller"])
    assert all(name in registered_commands for name in ships["a command"])
    assert all(name in registered_nodes for name in ships["a node"])
    assert all(resolve(name) for name in ships["an interface"])
    assert all(ships.values()) and len(ships) == 4
