"""Nodes that wait, and the workers that park and wake them."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import Client, Settings
from perdure.worker.domain.verdict import VerdictCode
from tests.support.example_flows import waits  # noqa: F401 -- registers flows
from tests.support.parked_runs import asleep, parked
from tests.support.redis_servers import until
from tests.support.runs import phase
from tests.support.workers import workers

MODULES = ("tests.support.example_flows.waits",)

pytestmark = pytest.mark.settings(flow_modules=MODULES)


@pytest.mark.parametrize(
    ("inputs", "code", "signals"),
    [
        ({}, VerdictCode.WAITING_FOR_A_SIGNAL, ["paid", "withdrawn"]),
        ({"timeout": 60}, VerdictCode.WAITING_FOR_A_SIGNAL, ["paid", "withdrawn"]),
        ({"nap": 60}, VerdictCode.SLEEPING, None),
    ],
    ids=["for a signal", "for a signal or a time", "for a time"],
)
def test_why_says_what_a_run_waits_for(
    client: Client,
    settings: Settings,
    inputs: dict[str, Any],
    code: VerdictCode,
    signals: list[str] | None,
) -> None:
    run = asleep(client, settings) if "nap" in inputs else parked(client, settings, **inputs)
    with workers(1, settings, PERDURE_FLOW_MODULES=MODULES[0]):
        until(lambda: bool(client.workers()), "the worker's announcement")
        verdict = client.why(run.id)
    assert (verdict.code, verdict.details.get("signals")) == (code, signals)
    assert (verdict.details["until"] is not None) == bool(inputs)


@pytest.mark.parametrize("pool", ["threads", "solo"])
def test_workers_park_wake_and_time_out(client: Client, settings: Settings, pool: str) -> None:
    with workers(1, settings, "--pool", pool, PERDURE_FLOW_MODULES=MODULES[0]):
        late = client.submit("payment", "g", {"timeout": 0.2, "nap": 0.2})
        paid = client.submit("payment", "g", {"nap": "200ms"})
        until(lambda: phase(client._store, paid.id) == "parked", "the wait for a signal")
        client.signal(paid.id, "paid", 7)
        assert client.wait(paid.id, 30).answer == ["charge of attempt 1", ["paid", 1, 7]]
        assert client.wait(late.id, 30).answer == ["charge of attempt 1", None]
