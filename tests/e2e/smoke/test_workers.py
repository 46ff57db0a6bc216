"""A worker of each pool, a killed worker and a worker that is ended: the part of `make test` on
workers.

Each is a real process, because pools, signals and deaths are the subject.
"""

from __future__ import annotations

import pytest

from perdure import Client, RunStatus, Settings
from tests.conftest import StartsWorkers
from tests.support.commit_log import commits, exact
from tests.support.os_processes import kill_process_of
from tests.support.redis_servers import until
from tests.support.workers import POOLS, workers

ROUNDS = 4
#: A killed worker is known by its lease.
SHORT_LEASE = {"PERDURE_LEASE_SECONDS": "2", "PERDURE_SWEEP_SECONDS": "0.2"}


@pytest.mark.parametrize("pool", POOLS)
def test_a_worker_of_each_pool_plays_a_run_to_its_end(
    client: Client, worker_process: StartsWorkers, pool: str
) -> None:
    worker_process("--pool", pool, "--concurrency", "1")
    run = client.submit("ledger", "count", {"rounds": ROUNDS})
    client.wait(run.id, timeout=30)
    assert exact(client, run.id, ROUNDS)


def test_another_worker_plays_on_when_one_is_killed(client: Client, settings: Settings) -> None:
    with workers(2, settings, "--concurrency", "1", **SHORT_LEASE):
        run = client.submit("ledger", "count", {"rounds": ROUNDS, "seconds": 0.5})
        until(lambda: kill_process_of(client, run.id), "a worker that holds a round")
        client.wait(run.id, timeout=30)
    assert exact(client, run.id, ROUNDS)
    assert "lost" in {event.type for event in client.events(run.id, follow=False)}


def test_a_stopped_run_stays_stopped(client: Client, worker_process: StartsWorkers) -> None:
    worker_process("--concurrency", "1")
    run = client.submit("ledger", "count", {"rounds": 1_000, "seconds": 0.05})
    until(lambda: len(commits(client, run.id)) > 0, "the first commit")
    client.request_stop(run.id)
    assert client.wait(run.id, timeout=30).status is RunStatus.STOPPED
    step = client.get(run.id).state.step
    assert commits(client, run.id) == list(range(step))
