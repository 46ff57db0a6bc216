"""The type checker's view of the result of a step. mypy reads a module with each case."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from mypy import api

HEAD = """
from enum import Enum
from typing import Any
from pydantic import BaseModel
from perdure.flows.workflows.steps import AsyncSteps, Steps

class Colour(str, Enum):
    RED = "red"

class Order(BaseModel):
    item: str

def text(a: int) -> str: return ""
def number() -> int: return 1
def flag() -> bool: return True
def names() -> list[str]: return []
def table() -> dict[str, int]: return {}
def colour() -> Colour: return Colour.RED
def order() -> Order: return Order(item="")
def maybe() -> str | None: return None
async def later() -> float: return 1.0
async def later_order() -> Order: return Order(item="")
"""
#: A call, and the type of its result. A type that JSON does not keep is Any, never the type of the
#: function.
PLAIN = {
    'step(text, 1, name="x", idempotent=True)': "str",
    "step(number)": "int",
    "step(flag)": "bool",
    "step(names)": "list[Any]",
    "step(table)": "dict[str, Any]",
    "step(colour)": "str",
    "step(order)": "Any",
    "step(maybe)": "Any",
    "step(later)": "float",
    "step(later_order)": "Any",
    "step(lambda: 3)": "int",
}


@pytest.mark.slow  # mypy reads all modules that steps import
def test_a_step_has_the_type_that_its_result_comes_back_with(tmp_path: Path) -> None:
    calls = [f"    reveal_type(steps.{call})" for call in PLAIN]
    awaited = [f"    reveal_type(await steps.{call})" for call in PLAIN]
    lines = [
        *HEAD.splitlines(),
        "def plain(steps: Steps) -> None:",
        *calls,
        "async def coroutine(steps: AsyncSteps) -> None:",
        *awaited,
        "    steps_result = await steps.step(text, 1)",
        "    wrong: int = steps_result",
    ]
    module = tmp_path / "typed_steps.py"
    module.write_text("\n".join(lines) + "\n")
    out, err, code = api.run(
        [
            "--strict",
            "--config-file=",
            "--follow-imports=silent",
            f"--cache-dir={tmp_path}",
            str(module),
        ]
    )
    assert not err, err
    assert re.findall(r'Revealed type is "(.+)"', out) == [*PLAIN.values(), *PLAIN.values()]
    assert re.findall(r"error: (.+)", out) == [
        'Incompatible types in assignment (expression has type "str", variable has type "int")  [assignment]'
    ]
    assert code == 1
