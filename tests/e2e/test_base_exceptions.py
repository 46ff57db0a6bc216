"""A BaseException that leaves a round fails it: the worker goes on, and the round's slot is free
again.
"""

from __future__ import annotations

import pytest

from perdure import Client
from perdure.worker.settings import Settings
from tests.support.example_flows.base_exceptions import ERRORS
from tests.support.workers import ONE_AND_SLOWLY_THE_OTHERS, workers

MODULE = "tests.support.example_flows.base_exceptions"
#: Longer than the test waits: nothing here is owed to a lease that lapsed.
ENVIRONMENT = {
    "PERDURE_FLOW_MODULES": MODULE,
    "PERDURE_LEASE_SECONDS": "120",
    "PERDURE_RETRY_DELAY_SECONDS": "0.05",
}


pytestmark = pytest.mark.settings(flow_modules=(MODULE,))


@pytest.mark.parametrize("pool", ONE_AND_SLOWLY_THE_OTHERS)
def test_a_round_that_raises_no_exception_fails_and_its_place_is_free_again(
    client: Client, settings: Settings, pool: str
) -> None:
    # On the main thread WorkerShutdown is Celery's way to end a worker, and stays so.
    goals = [goal for goal in ERRORS if pool == "threads" or goal != "shutdown"]
    with workers(1, settings, "--pool", pool, "--concurrency", "1", **ENVIRONMENT) as [worker]:
        runs = [client.submit("breaks_out", goal).id for goal in goals]
        for run_id in runs:
            assert client.wait(run_id, 30).answer == 2
            assert [event.type for event in client.events(run_id, follow=False)].count(
                "failed"
            ) == 1
        assert worker.process.poll() is None
