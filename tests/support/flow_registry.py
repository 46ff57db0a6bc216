"""A registry of flows that forgets the flows of a test after it."""

from __future__ import annotations

import pytest

from perdure.flows import registry


def own_registry(monkeypatch: pytest.MonkeyPatch, *without: str) -> None:
    """Let the flows that this test registers be forgotten after it.

    Those that come with Perdure are loaded before: a module registers its flows only once.

    Args:
        without: names of flows that this test registers, and perhaps another test has registered.
    """
    registry.registered()
    kept = {name: flow for name, flow in registry._sources.items() if name not in without}
    monkeypatch.setattr(registry, "_sources", kept)
