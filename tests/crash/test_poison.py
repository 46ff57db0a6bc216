"""A run whose round kills its worker takes none of its neighbours along, and ends with an error
that says so.
"""

from __future__ import annotations

import threading

import pytest

from perdure import Client, RunStatus, Settings
from tests.support.commit_log import exact
from tests.support.redis_servers import CrashableServer
from tests.support.workers import WorkerProcess

INNOCENTS = 20
ROUNDS = 2
FLOWS = "tests.support.example_flows.rings,tests.support.example_flows.unsafe_flows"
MAX_LOSSES = 6


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(400)
def test_twenty_long_rounds_beside_a_run_that_kills_its_worker_all_complete(
    own_server: CrashableServer,
) -> None:
    settings = Settings(
        redis_url=own_server.url,
        prefix="poison",
        flow_modules=tuple(FLOWS.split(",")),
        max_losses=MAX_LOSSES,
    )
    client = Client(settings=settings)
    environment = {"PERDURE_FLOW_MODULES": FLOWS, "PERDURE_MAX_LOSSES": str(MAX_LOSSES)}

    def start() -> WorkerProcess:
        return WorkerProcess(settings, **environment)

    fleet = [start() for _ in range(2)]
    deaths = 0
    try:
        for worker in fleet:
            worker.ready()
        innocent = [
            client.submit("ledger", "g", {"rounds": 1, "seconds": 6.0}).id for _ in range(INNOCENTS)
        ]
        poison = client.submit("killer", "g").id
        while not all(client.get(run_id).status.ended for run_id in [*innocent, poison]):
            for place, worker in enumerate(fleet):
                if worker.process.poll() is not None:
                    deaths += 1
                    worker.close()
                    fleet[place] = start()
            threading.Event().wait(0.1)
    finally:
        for worker in fleet:
            worker.close()

    events = {run_id: list(client.events(run_id, follow=False)) for run_id in [*innocent, poison]}
    losses = {run_id: sum(event.type == "lost" for event in log) for run_id, log in events.items()}
    print(f"{deaths} workers died; innocents lost {[losses[run_id] for run_id in innocent]}")
    assert sum(losses[run_id] for run_id in innocent) > 0, "the neighbours must have been hit"
    assert [run_id for run_id in innocent if not exact(client, run_id, 1)] == []
    ended = client.get(poison)
    assert ended.status is RunStatus.ERRORED
    assert losses[poison] == MAX_LOSSES + 1 == deaths
    owner = [event for event in events[poison] if event.type == "lost"][-1].data["owner"]
    for part in ("workers died", "step 0", "node Controller", f"{MAX_LOSSES + 1} times", owner):
        assert part in (ended.error or "")
    client.close()
