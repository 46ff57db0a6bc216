"""A Python module is checked as a whole: each fault is reported at its line."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from perdure.flows.loading import sources
from perdure.flows.loading.directories import Directories
from perdure.flows.loading.module_check import CheckedModule, is_module, likely_mistakes, run_module
from perdure.flows.rounds import registry


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory."""
    registry.registered()
    monkeypatch.setattr(registry, "_definitions", dict(registry._definitions))
    monkeypatch.setattr(sources, "_directories", Directories())
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def checked(target: str, text: str = "") -> CheckedModule:
    if text:
        Path(target).parent.mkdir(exist_ok=True)
        Path(target).write_text(text)
    module = run_module(target)
    module.check_flows()
    return module


def faults(target: str, text: str = "") -> list[tuple[int, str, str]]:
    return [(fault.line, fault.key, fault.message) for fault in checked(target, text).faults]


WRONG = '''\
"""Flows with faults."""
from __future__ import annotations

from perdure import ControllerExecutorFlow, Steps, command, flow_command, register, workflow
from perdure.flows.controllers.model import ModelController


@workflow("no name")
def first(steps: Steps) -> str:
    return "x"


@workflow("other", colour="red")
def second(steps: Steps):
    return steps.child("countdwn", "x")


@register("asks_twice")
class Asks(ControllerExecutorFlow):
    controller = ModelController(
        model="openai:gpt-5", temperature="hot", window={"characters": 0}
    )


lost = Asks()


@register("starts")
class Starts(ControllerExecutorFlow):
    commands = [
        flow_command("count", flow="countdwn"),
    ]

    def decide(self, context):
        return context.child("nothing")


register("factory", lambda: 1 / 0)


@workflow("third")
async def third(run, numbers: list[int]):
    await run.map("countdown", numbers)
    return await run.child("questoin", "x")
'''


def test_each_fault_is_told_at_its_line() -> None:
    found = faults("wrong.py", WRONG)
    told = [
        (8, "", "'no name' cannot name a flow"),
        (13, "", "workflow 'other' has no setting 'colour'"),
        (15, "", "did you mean 'countdown'?"),
        (20, "temperature", "number"),
        (20, "window.characters", "unknown key"),
        (31, "", "did you mean 'countdown'?"),
        (35, "", "no flow is named 'nothing'"),
        (38, "", "ZeroDivisionError"),
        (44, "", "did you mean 'question'?"),
    ]
    assert [(line, key) for line, key, _ in found] == [(line, key) for line, key, _ in told]
    assert all(words in message for (_, _, words), (_, _, message) in zip(told, found, strict=True))


RIGHT = """\
from pydantic import BaseModel

from perdure import Flow, Steps, workflow
import helpers


@workflow("ships")
def ship(steps: Steps, number: int) -> str:
    steps.child("counts_letters", "x")
    return helpers.NAME


@workflow("counts_letters")
def count(steps: Steps) -> int:
    return {"x": 1}.get("counts_letters") or "x".count("y")
"""


def test_flows_without_faults_are_listed(folder: Path) -> None:
    (folder / "helpers.py").write_text("NAME = 'x'\n")
    module = checked("right.py", RIGHT)
    assert module.faults == [] and module.file == "right.py"
    assert [flow.name for flow in module.flows] == ["ships", "counts_letters"]


def test_a_module_may_be_named(folder: Path) -> None:
    (folder / "helpers.py").write_text("NAME = 'x'\n")
    (folder / "right.py").write_text(RIGHT)
    module = checked("right")
    assert (module.file, len(module.flows)) == ("right.py", 2)


def test_a_module_may_be_in_a_package(folder: Path) -> None:
    (folder / "shop").mkdir()
    (folder / "shop" / "__init__.py").write_text("")
    (folder / "helpers.py").write_text("NAME = 'x'\n")
    module = checked("shop/orders.py", RIGHT)
    assert module.faults == [] and sys.modules["shop.orders"]


def test_a_file_outside_of_the_working_directory_is_found(folder: Path) -> None:
    other = folder / "else-where"
    other.mkdir()
    (other / "helpers.py").write_text("NAME = 'x'\n")
    assert len(checked(str(other / "right.py"), RIGHT).flows) == 2


@pytest.mark.parametrize(
    ("target", "text", "told"),
    [
        ("missing.py", "", "there is no file missing.py"),
        ("missing", "", "flow module 'missing' cannot be imported"),
        ("shop.missing", "", "flow module 'shop' cannot be imported"),
        ("broken.py", "def f(:\n", "SyntaxError"),
        ("broken.py", "import nothing_here\n", "ModuleNotFoundError: No module named 'nothing_here'"),
        ("broken.py", "print(x)\n", "NameError: name 'x' is not defined"),
    ],
)  # fmt: skip
def test_a_module_that_cannot_be_imported_is_told(target: str, text: str, told: str) -> None:
    ((line, key, message),) = faults(target, text)
    assert (line, key) == (1, "") and told in message


def test_inputs_without_a_schema_are_told() -> None:
    text = (
        "from perdure import Steps, workflow\n\nclass Thing: ...\n\n"
        '@workflow("things")\ndef things(steps: Steps, thing: Thing): ...\n'
    )
    ((line, _, message),) = faults("things.py", text)
    assert line == 5 and "flow 'things': its inputs have no JSON schema" in message


@pytest.mark.parametrize(
    ("target", "is_one"),
    [("a.py", True), ("a", True), ("a.b", True), ("a.yaml", False), ("a.yml", False), ("a/b", False)],
)  # fmt: skip
def test_a_module_is_told_from_a_file(target: str, is_one: bool) -> None:
    assert is_module(target) is is_one


MISSPELT = """\
from perdure import ControllerExecutorFlow, Finish, command, register


@register("first")
class First(ControllerExecutorFlow):
    @command(in_dout="ask")
    def look(self) -> str: ...


@register("second")
class Second(ControllerExecutorFlow):
    maximum = 4


@register("third")
class Third(ControllerExecutorFlow):
    max_round = 4
    maximum = 4

    def decide(self, context):
        return Finish("x")
"""


def test_what_stands_behind_a_faulty_definition_is_checked_too() -> None:
    assert [(line, message.partition(":")[0]) for line, _, message in faults("m.py", MISSPELT)] == [
        (6, "TypeError"),
        (10, "flow 'Second'"),
    ]


def test_an_attribute_that_looks_like_a_misspelt_setting_is_told() -> None:
    [flow] = checked("m.py", MISSPELT).flows
    assert likely_mistakes(flow) == [
        "Third.max_round is no setting of a flow; did you mean 'max_rounds'?"
    ]
