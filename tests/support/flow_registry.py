"""A registry of flows that forgets the flows of a test after it, and a folder of flow files."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure.flows.rounds import registry


def own_registry(monkeypatch: pytest.MonkeyPatch, *without: str) -> None:
    """Forget the flows that this test registers after it.

    The flows that come with Perdure are loaded before: a module registers its flows only once.

    Args:
        without: names of flows that this test registers, and perhaps another test has registered.
    """
    registry.registered()
    kept = {name: flow for name, flow in registry._definitions.items() if name not in without}
    monkeypatch.setattr(registry, "_definitions", kept)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with an empty folder of flows."""
    monkeypatch.chdir(tmp_path)
    made = tmp_path / "flows"
    made.mkdir()
    return made
