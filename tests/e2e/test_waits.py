"""Nodes that wait, on the pools of a worker: a process for each.

The rules are in tests/run/runs/test_waits.py.
"""

from __future__ import annotations

import pytest

from perdure import Client, Settings
from tests.support.redis_servers import until
from tests.support.runs import phase
from tests.support.workers import workers

MODULES = ("tests.support.example_flows.waits",)

pytestmark = pytest.mark.settings(flow_modules=MODULES)


@pytest.mark.parametrize("pool", ["threads", "solo"])
def test_workers_park_wake_and_time_out(client: Client, settings: Settings, pool: str) -> None:
    with workers(1, settings, "--pool", pool, PERDURE_FLOW_MODULES=MODULES[0]):
        late = client.submit("payment", "g", {"timeout": 0.2, "nap": 0.2})
        paid = client.submit("payment", "g", {"nap": "200ms"})
        until(lambda: phase(client._store, paid.id) == "parked", "the wait for a signal")
        client.signal(paid.id, "paid", 7)
        assert client.wait(paid.id, 30).answer == ["charge of attempt 1", ["paid", 1, 7]]
        assert client.wait(late.id, 30).answer == ["charge of attempt 1", None]
