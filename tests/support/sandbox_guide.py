"""The examples of docs/guides/sandbox.md."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.flow_registry import own_registry

TEXT = (Path(__file__).parents[2] / "docs" / "guides" / "sandbox.md").read_text("utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", TEXT, re.DOTALL)


@pytest.fixture(autouse=True)
def registry_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Later workers do not announce the guide's flows."""
    own_registry(monkeypatch)


def names_of(number: int) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": __name__}
    exec([text for kind, text in BLOCKS if kind == "python"][number], names)
    return names
