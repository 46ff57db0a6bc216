"""Calls of one reply are played at once by the threads of a worker."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import pytest

from perdure import Client
from tests.support.example_flows import agents  # noqa: F401 -- registers flows
from tests.support.swarms import swarm

MODULES = ("tests.support.example_flows.agents",)

pytestmark = pytest.mark.settings(flow_modules=MODULES)


@pytest.mark.slow
def test_eight_calls_of_two_seconds_take_little_more_than_two_seconds(
    client: Client, worker_process: Callable[..., object]
) -> None:
    worker_process("--pool=threads", "--concurrency=8", PERDURE_FLOW_MODULES=MODULES[0])
    run = swarm(client, [["nap", {"seconds": 2}]] * 8)
    done = client.wait(run.id, timeout=30)
    assert done.answer == ["slept"] * 8
    started = datetime.fromisoformat(done.details["started_at"])
    ended = datetime.fromisoformat(done.details["ended_at"])
    assert (ended - started).total_seconds() < 6, "one after another they take 16 s"
