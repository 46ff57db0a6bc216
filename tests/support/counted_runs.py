"""Runs of the counting flows, played in this process."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import Client, Run, Settings
from tests.support.round_driver import driving


def play(settings: Settings, run_id: str) -> None:
    """Play rounds until no message is left."""
    with driving(settings) as driver:
        driver.play(2_000)


def counted(client: Client, settings: Settings, flow: str, **inputs: Any) -> Run:
    """Play a run of flow ``counts`` or its like to its end."""
    run = client.submit(flow, "g", inputs)
    play(settings, run.id)
    return client.get(run.id)


@pytest.fixture
def long(client: Client, settings: Settings) -> Run:
    """A run whose first events are gone."""
    return counted(client, settings, "counts_bounded", rounds=300)
