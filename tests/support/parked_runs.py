"""Runs that wait for signals or times."""

from __future__ import annotations

from typing import Any

from perdure import Client, Run, Settings
from tests.support.example_flows import waits  # noqa: F401 -- registers flows
from tests.support.runs import hash_of, phase
from tests.support.runs_in_every_status import play


def parked(client: Client, settings: Settings, flow: str = "payment", **inputs: Any) -> Run:
    """Play a run up to its wait."""
    run = client.submit(flow, "g", inputs)
    play(settings, run.id)
    assert phase(client._store, run.id) == "parked"
    return run


def asleep(client: Client, settings: Settings) -> Run:
    """Play a run until it sleeps, after its signal."""
    run = client.submit("payment", "g", {"nap": 60})
    client.signal(run.id, "paid")
    play(settings, run.id)
    assert "wait_until" in hash_of(client._store, run.id)
    return run
