"""Calls of one reply are played at once by the threads of a worker."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from perdure import Client
from tests.support.example_flows import agents  # noqa: F401 -- registers flows
from tests.support.swarms import swarm

MODULES = ("tests.support.example_flows.agents",)

pytestmark = pytest.mark.settings(flow_modules=MODULES)


@pytest.mark.slow
def test_eight_calls_of_one_reply_are_all_under_way_at_one_time(
    client: Client, worker_process: Callable[..., object]
) -> None:
    worker_process("--pool=threads", "--concurrency=8", PERDURE_FLOW_MODULES=MODULES[0])
    run = swarm(client, [["meet", {}]] * 8)
    assert client.wait(run.id, timeout=60).answer == ["met"] * 8
