"""Flows that a test registers for itself."""

from __future__ import annotations

import pytest

from perdure.flows import registry


def own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the flows that this test registers be forgotten after it.

    Those that come with Perdure are loaded before: a module registers its flows only once.
    """
    registry.registered()
    monkeypatch.setattr(registry, "_sources", dict(registry._sources))
