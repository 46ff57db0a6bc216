"""An outage is not a death: when the server was away, no live worker loses its rounds, and a dead
one is replaced.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable

import pytest

from perdure import Client, Settings
from tests.support.commit_log import exact
from tests.support.redis_servers import CrashableServer, until
from tests.support.workers import workers

RUNS = 20
ROUNDS = 2
WORKERS = 3
#: Slots for all rounds on each pair of workers, so that those of a dead worker can start at once.
CONCURRENCY = "20"


def stand_still(own_server: CrashableServer, meanwhile: Callable[[], None], seconds: float) -> None:
    """Stop the server's process for some seconds; connections stay, nothing is answered."""
    process = own_server.pid
    assert process is not None
    os.kill(process, signal.SIGSTOP)
    try:
        meanwhile()
        threading.Event().wait(seconds)
    finally:
        os.kill(process, signal.SIGCONT)


def die_and_return(
    own_server: CrashableServer, meanwhile: Callable[[], None], seconds: float
) -> None:
    """Kill the server and start it again some seconds later on the same data."""
    own_server.kill()
    meanwhile()
    threading.Event().wait(seconds)
    own_server.start()


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    "round_seconds", [6.0, 14.0], ids=["rounds end in it", "rounds outlast it"]
)
@pytest.mark.parametrize("worker_dies", [False, True], ids=["all live", "one dies"])
def test_a_server_that_stands_still_robs_no_live_worker(
    own_server: CrashableServer, worker_dies: bool, round_seconds: float
) -> None:
    endure(
        own_server,
        stand_still,
        10,
        round_seconds,
        worker_dies,
        Settings(redis_url=own_server.url, prefix="outage"),
    )


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    "round_seconds", [6.0, 14.0], ids=["rounds end in it", "rounds outlast it"]
)
@pytest.mark.parametrize("worker_dies", [False, True], ids=["all live", "one dies"])
def test_a_server_that_dies_and_returns_robs_no_live_worker(
    own_server: CrashableServer, worker_dies: bool, round_seconds: float
) -> None:
    endure(
        own_server,
        die_and_return,
        10,
        round_seconds,
        worker_dies,
        Settings(redis_url=own_server.url, prefix="outage"),
    )


@pytest.mark.timeout(60)
@pytest.mark.slow
@pytest.mark.parametrize("outage", [stand_still, die_and_return])
def test_an_outage_longer_than_a_lease_costs_a_dead_worker_its_rounds_and_nobody_else(
    own_server: CrashableServer,
    outage: Callable[[CrashableServer, Callable[[], None], float], None],
) -> None:
    short = Settings(
        redis_url=own_server.url,
        prefix="outage",
        lease_seconds=1.0,
        heartbeat_seconds=0.25,
        sweep_seconds=0.2,
    )
    endure(own_server, outage, 2, 3.0, True, short)


def endure(
    own_server: CrashableServer,
    outage: Callable[[CrashableServer, Callable[[], None], float], None],
    seconds: float,
    round_seconds: float,
    worker_dies: bool,
    settings: Settings,
) -> None:
    settings = settings.model_copy(update={"flow_modules": ("tests.support.example_flows.rings",)})
    client = Client(settings=settings)
    pace = {
        f"PERDURE_{name.upper()}": str(getattr(settings, name))
        for name in ("lease_seconds", "heartbeat_seconds", "sweep_seconds")
    }
    with workers(WORKERS, settings, PERDURE_CONCURRENCY=CONCURRENCY, **pace) as fleet:
        ids = [
            client.submit("ledger", "g", {"rounds": ROUNDS, "seconds": round_seconds}).id
            for _ in range(RUNS)
        ]
        until(
            lambda: all(
                fields and fields["phase"] == "leased"
                for fields in client._store.reads.records(ids)
            ),
            "all rounds in flight",
        )
        # The first sweep ever has no earlier one to measure a silence by
        # (tests/store/test_silence.py).
        until(
            lambda: client._store.redis.hexists(client._store.keys.queues, "swept_at"),
            "the first sweep",
        )
        owners = {
            run_id: (fields or {})["owner"]
            for run_id, fields in zip(ids, client._store.reads.records(ids), strict=True)
        }
        names = {worker.name: worker for worker in fleet}
        # The worker with the most runs, so that its death is felt.
        victim = max(names, key=lambda name: list(owners.values()).count(name or ""))
        bereft = {run_id for run_id, owner in owners.items() if worker_dies and owner == victim}
        assert bereft or not worker_dies
        outage(own_server, names[victim].kill if worker_dies else lambda: None, seconds)
        back = client._store.time()
        for run_id in ids:
            client.wait(run_id, 60)

        assert [run_id for run_id in ids if not exact(client, run_id, ROUNDS)] == []
        losses = [
            (run_id, event)
            for run_id in ids
            for event in client.events(run_id, follow=False)
            if event.type == "lost"
        ]
        assert {event.data["owner"] for _, event in losses} <= {victim}, (
            "no live worker may be robbed"
        )
        assert sorted(run_id for run_id, _ in losses) == sorted(bereft), (
            "each round of the dead worker is lost once, no other"
        )
        late = [round(event.at.timestamp() * 1000) - back for _, event in losses]
        print(
            f"{RUNS} runs exact, {len(losses)} leases of the dead worker freed {late} ms after the server was back"
        )
        in_time = (
            2_000 * settings.lease_seconds + 1_000
        )  # two leases; and a second for processes to get their turn on two busy cores
        assert max(late, default=0) <= in_time, (
            "a worker that died in the meantime is replaced within two leases"
        )
        assert all(
            worker.process.poll() is None
            for name, worker in names.items()
            if not (worker_dies and name == victim)
        )
        assert client._store.lists.counts()["due"] == 0
    client.close()
