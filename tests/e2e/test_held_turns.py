"""Data redacted by a node behind the Executor is nowhere on the server when its cycle is over, even
if a worker was killed in between.
"""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from perdure import Client, RunStatus
from perdure.worker.settings import Settings
from tests.support.example_flows.redaction import SECRET
from tests.support.redis_servers import server as server_of_its_own
from tests.support.redis_servers import until
from tests.support.stored_texts import stored
from tests.support.workers import WorkerProcess

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

SOON = {
    "PERDURE_LEASE_SECONDS": "2",
    "PERDURE_HEARTBEAT_SECONDS": "0.5",
    "PERDURE_SWEEP_SECONDS": "0.2",
    "PERDURE_RESEND_SECONDS": "1",
}
SOON |= {
    "PERDURE_RETRY_DELAY_SECONDS": "0.1",
    "PERDURE_FLOW_MODULES": "tests.support.example_flows.redaction",
}


@pytest.mark.parametrize("dies", [False, True])
def test_what_is_redacted_is_in_no_history_event_artifact_or_value(dies: bool) -> None:
    with ExitStack() as closing:
        server = closing.enter_context(server_of_its_own("valkey", "everysec"))
        settings = Settings(redis_url=server.url, prefix="held")
        client = Client(settings=settings)
        closing.callback(client.close)
        workers: list[WorkerProcess] = []

        def start() -> None:
            process = WorkerProcess(settings, "--pool", "threads", "--concurrency", "2", **SOON)
            closing.callback(process.close)
            workers.append(process)

        start()
        run = client.submit("redacting", "look", {"dies": dies})
        for number in range(2 * dies):
            until(lambda: workers[-1].process.poll() is not None, f"death {number + 1}", 40)
            until(lambda: client.get(run.id).status is RunStatus.RUNNING, "the run to be there")
            assert SECRET not in str(client.transcript(run.id)), "what is held is not shown either"
            start()
        run = client.wait(run.id, 60)
        assert run.status is RunStatus.COMPLETED, run.error
        assert run.answer == [f"redacted in step {step}" for step in (2, 5)]
        told = client.transcript(run.id)
        assert [each["observation"] for each in told["history"]] == run.answer
        assert SECRET not in "\n".join([*stored(server), str(told)])
