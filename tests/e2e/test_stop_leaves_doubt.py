"""Commands in doubt after a graceful stop: commands of an interrupted round, unless all are
idempotent.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure import Client, RunStatus
from perdure.worker.settings import Settings
from tests.support.redis_servers import until
from tests.support.workers import workers

pytestmark = pytest.mark.settings(flow_modules=("tests.support.example_flows.long_commands",))


def test_a_graceful_stop_of_an_idempotent_command_leaves_nothing_in_doubt(
    client: Client, settings: Settings, tmp_path: Path
) -> None:
    with workers(
        1,
        settings,
        "--concurrency",
        "2",
        PERDURE_FLOW_MODULES="tests.support.example_flows.long_commands",
    ):
        for goal, doubt in (("harmless", None), ("plain", "1/Executor/1")):
            begun = tmp_path / goal
            run = client.submit("heeds", goal, {"begun": str(begun)})
            until(begun.exists, "the command")
            client.request_stop(run.id)
            stopped = client.wait(run.id, 20)
            assert stopped.status is RunStatus.STOPPED and stopped.details.get("in_doubt") == doubt
