"""The private parts of Celery and kombu: they are there, one room uses them, and one check names what has changed."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import pytest

from perdure.worker.doctor.app_checks import private_parts
from perdure.worker.domain.verdict import Level
from perdure.worker.private_parts.table import (
    PARTS,
    USES,
    PrivatePart,
    changed_parts,
    explained,
)

ROOT = Path(__file__).parents[3]
ROOM = ROOT / "worker/private_parts"
#: The names of the parts that begin with an underscore.
PRIVATE = {part.name for part in PARTS if part.name.startswith("_")}
PAGE = ROOT / "docs/internals/private-parts.md"


def test_the_installed_celery_and_kombu_have_all_parts() -> None:
    """A canary: red where an update of Celery or kombu has changed one."""
    assert changed_parts() == []
    assert private_parts([]).level is Level.OK


def test_a_part_that_is_gone_or_takes_other_parameters_is_named_with_its_effect(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    changed = [part._replace(name=f"{part.name}_of_old") for part in PARTS]
    changed += [part._replace(owner=f"{part.owner}OfOld") for part in PARTS]
    changed += [
        part._replace(parameters=(*part.parameters, "more"))
        for part in PARTS
        if part.parameters is not None
    ]
    for each in changed:
        monkeypatch.setattr("perdure.worker.private_parts.table.PARTS", (each, *PARTS))
        assert changed_parts() == [each] == changed_parts(each.use)
        finding = private_parts([each])
        assert finding.level is Level.WARNING
        assert str(each) in finding.sentence and USES[each.use] in finding.sentence


def test_several_parts_are_one_sentence_that_tells_each_effect_once() -> None:
    prefetch = [part for part in PARTS if part.use == "prefetch"][:2]
    assert explained(prefetch).count(USES["prefetch"]) == 1


def test_a_part_of_instances_is_one_that_some_method_uses() -> None:
    """Else any name would count as there."""
    owner = "kombu.transport.virtual.base:QoS"
    assert changed_parts() == []
    import_module("kombu.transport.virtual.base")
    invented = PrivatePart(owner, "_never_written", "shutdown")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("perdure.worker.private_parts.table.PARTS", (invented,))
        assert changed_parts() == [invented]


def test_no_other_module_touches_a_private_part() -> None:
    found = {
        f"{file.relative_to(ROOT)}:{node.lineno} {node.attr}"
        for package in ("messaging", "runtime")  # they may import Celery and kombu
        for file in (ROOT / "worker" / package).rglob("*.py")
        for node in private_parts_in(ast.parse(file.read_text()))
    }
    assert found == set()


def test_each_part_is_one_that_the_room_uses() -> None:
    room = "".join(file.read_text() for file in ROOM.glob("*.py") if file.name != "table.py")
    unused = {part.name for part in PARTS if part.name not in room}
    assert unused == {"append", "can_consume"}, "kombu calls these when a message is delivered"


def private_parts_in(module: ast.Module) -> list[ast.Attribute]:
    """Return the attributes with the name of a part, without those of the module's own objects."""
    nodes = list(ast.walk(module))
    own = {node.name for node in nodes if isinstance(node, ast.FunctionDef)} | {
        node.attr
        for node in nodes
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and is_self(node)
    }
    return [
        node
        for node in nodes
        if isinstance(node, ast.Attribute)
        and node.attr in PRIVATE
        and not (is_self(node) and node.attr in own)
    ]


def is_self(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id == "self"


def test_the_page_has_a_row_for_each_part() -> None:
    rows = {
        cells[1].strip().strip("`"): cells[2].strip()
        for line in PAGE.read_text().splitlines()
        if line.startswith("| `") and len(cells := line.split("|")) > 4
    }
    assert rows == {f"{part.owner.partition(':')[2]}.{part.name}": part.use for part in PARTS}
