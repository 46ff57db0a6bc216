"""What a graceful stop leaves in doubt: a round that was broken off, unless all it did may be done again."""

from __future__ import annotations

import pytest

from tests.support.servers import CrashableServer, until
from tests.support.workers import workers
from worker import Client, RunStatus
from worker.settings import Settings


@pytest.fixture
def settings(server: CrashableServer, prefix: str) -> Settings:
    return Settings(redis_url=server.url, prefix=prefix, flow_modules=("tests.support.heeding",))


def test_a_graceful_stop_of_an_idempotent_command_leaves_nothing_in_doubt(client: Client, settings: Settings) -> None:
    with workers(1, settings, "--concurrency", "2", HOLDFAST_FLOW_MODULES="tests.support.heeding"):
        for goal, doubt in (("harmless", None), ("plain", "1/Executor/1")):
            run = client.submit("heeds", goal)
            until(lambda run=run: client.get(run.id).state.step == 1 and client.get(run.id).phase == "leased", "the command")  # type: ignore[misc]
            client.request_stop(run.id)
            stopped = client.wait(run.id, 20)
            assert stopped.status is RunStatus.STOPPED and stopped.details.get("in_doubt") == doubt
