"""The registry: flows by name, fresh at every call."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure import (
    CircularFlow,
    ControllerExecutorFlow,
    Finish,
    FlowNotFound,
    InvalidFlow,
    Node,
    load_failures,
    load_modules,
    make,
    register,
    registered,
)
from perdure.flows.rounds import registry


class Tiny(CircularFlow):
    topology = (Node("A", lambda given, context: Finish(1)),)


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    registered()  # shipped modules are imported once a process: they must stay
    monkeypatch.setattr(registry, "_definitions", dict(registry._definitions))
    monkeypatch.setattr(registry, "_failures", {})
    modules = dict(sys.modules)
    yield
    for added in set(sys.modules) - set(modules):
        if added.startswith("made_here"):
            del sys.modules[added]


def test_every_call_makes_a_fresh_flow() -> None:
    instance = Tiny()
    register("tiny-class")(Tiny)
    register("tiny-object", instance)
    register("tiny-function", lambda: Tiny(max_rounds=3))
    for name in ("tiny-class", "tiny-object", "tiny-function"):
        first, second = make(name), make(name)
        assert first is not second
        assert first is not instance
        assert first.name == name
        first.max_rounds = 99
        assert make(name).max_rounds != 99
    assert instance.name == ""


def test_registered_names_what_ships_and_gives_fresh_flows() -> None:
    found = registered()
    assert {"countdown", "question"} <= set(found)
    assert found["countdown"]() is not found["countdown"]()


def test_an_unknown_flow_names_the_nearest() -> None:
    with pytest.raises(FlowNotFound, match="no flow is named 'countdwn'; did you mean 'countdown'"):
        make("countdwn")
    for odd in ("", "../x", "os.path", "flows", "a" * 10_000):
        with pytest.raises(FlowNotFound):
            make(odd)


@pytest.mark.parametrize("name", ["", " a", "-a", "a/b", "a b", "a" * 101, "ä", 5])
def test_a_name_that_cannot_stand_in_a_key_is_refused(name: str) -> None:
    with pytest.raises(InvalidFlow, match="cannot name a flow"):
        register(name, Tiny())


def test_two_flows_of_one_name_are_refused_and_a_reload_is_not() -> None:
    register("taken", Tiny)
    register("taken", Tiny)

    class Other(Tiny): ...

    with pytest.raises(InvalidFlow, match=r"two flows are named 'taken': .*Tiny and .*Other"):
        register("taken")(Other)


def test_a_module_may_be_loaded_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "from perdure import *\n@register('reloaded')\nclass F(CircularFlow):\n    topology = (Node('A', lambda g, c: Finish(1)),)\n"
    (tmp_path / "made_here.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    load_modules(["made_here"])
    before = type(make("reloaded"))
    importlib.reload(sys.modules["made_here"])
    assert type(make("reloaded")) is not before


def test_a_flow_of_ones_own_takes_precedence_over_a_shipped_one() -> None:
    register("question", Tiny)
    registered()
    assert type(make("question")) is Tiny
    importlib.reload(importlib.import_module("perdure.flows.library.question"))
    assert type(make("question")) is Tiny


def test_a_definition_is_checked_when_it_is_registered() -> None:
    class Unbounded(Tiny):
        max_rounds = 0

    class Undecided(ControllerExecutorFlow): ...

    class Pausing(Tiny):
        interrupt_before = ("B",)

    class Needy(Tiny):
        def __init__(self, needed: int) -> None: ...

    for cls, words in [
        (Unbounded, "max_rounds is 0"),
        (Undecided, "expected a method decide"),
        (Pausing, "'B'"),
        (Needy, "needed"),
    ]:
        with pytest.raises(InvalidFlow, match=words):
            register("checked")(cls)
    with pytest.raises(InvalidFlow, match="registered as 5"):
        register("checked", 5)  # type: ignore[type-var]
    with pytest.raises(InvalidFlow, match="gives a int; expected a Flow"):
        register("checked", int)  # type: ignore[type-var]
    with pytest.raises(FlowNotFound):
        make("checked")


def test_a_module_that_cannot_be_imported_is_a_clear_error() -> None:
    with pytest.raises(InvalidFlow, match="flow module 'made_here_not' cannot be imported"):
        load_modules(["made_here_not"])


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("x = (\n", "SyntaxError: .*broken.py, line 1"),
        ('x = 1\nx = {}["a"]\n', "KeyError: 'a' .*broken.py, line 2"),
        ("from perdure import nothing_such\n", "ImportError: .*broken.py, line 1"),
    ],
)
def test_a_module_that_fails_as_it_is_imported_is_an_error_of_its_author(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, fault: str
) -> None:
    (tmp_path / "broken.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InvalidFlow, match=f"'broken' cannot be imported: {fault}"):
        load_modules(["broken"])


def test_a_module_that_needs_an_extra_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "trader.py").write_text("import agents\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "agents", None)
    with pytest.raises(InvalidFlow, match=r"it needs the extra 'openai-agents': pip install"):
        load_modules(["trader"])


def test_a_file_name_in_place_of_a_module_is_told() -> None:
    with pytest.raises(InvalidFlow, match=r"write 'report', without \.py"):
        load_modules(["report.py"])


def _install(tmp_path: Path, name: str, entry: str, source: str) -> None:
    (tmp_path / f"{name}.py").write_text(source)
    info = tmp_path / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[perdure.flows]\n{entry}\n")


def test_flows_of_installed_packages_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    source = "from perdure import *\nclass F(CircularFlow):\n    topology = (Node('A', lambda g, c: Finish(1)),)\n"
    _install(tmp_path, "made_here_plugin", "plugged = made_here_plugin:F", source)
    assert make("plugged").name == "plugged"


def test_a_broken_package_takes_no_other_flow_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    _install(
        tmp_path, "made_here_broken", "broken = made_here_broken:F", "raise OSError('no disk')\n"
    )
    assert "countdown" in registered()
    assert list(load_failures().values()) == ["OSError: no disk"]
    with pytest.raises(FlowNotFound, match=r"could not be loaded: entry point broken .*no disk"):
        make("broken")
