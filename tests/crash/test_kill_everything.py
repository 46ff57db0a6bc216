"""Workers killed as a group, messages thrown away, the server killed: every run still ends with an
exact log.
"""

from __future__ import annotations

import pytest

from perdure import Client, Settings
from perdure.worker.store import StoreUnavailable
from tests.support.commit_log import exact
from tests.support.os_processes import kill_process_of
from tests.support.redis_servers import CrashableServer, until
from tests.support.worker_crashes import (
    PREFORK,
    ROUND_SECONDS,
    ROUNDS,
    SOLO,
    THREADS,
    THROWN_SHARE,
    committed,
    in_flight,
    kill_groups_and_throw_messages,
)
from tests.support.workers import WorkerProcess


@pytest.fixture
def settings(own_server: CrashableServer) -> Settings:
    return Settings(
        redis_url=own_server.url,
        prefix="kills",
        flow_modules=("tests.support.example_flows.rings",),
    )


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.parametrize("fetch", [True, False], ids=["fetching", "not fetching"])
def test_forty_runs_survive_ten_kills_of_the_whole_group_and_three_of_ten_messages_thrown_away(
    settings: Settings, fetch: bool
) -> None:
    kill_groups_and_throw_messages(settings.model_copy(update={"fetch": fetch}), runs=40, kills=10)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(120)
@pytest.mark.parametrize("fetch", [True, False], ids=["fetching", "not fetching"])
def test_runs_survive_kills_of_the_whole_group_and_messages_thrown_away(
    settings: Settings, fetch: bool
) -> None:
    kill_groups_and_throw_messages(settings.model_copy(update={"fetch": fetch}), runs=8, kills=2)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(240)
@pytest.mark.parametrize("options", [THREADS, SOLO], ids=["threads", "solo"])
def test_runs_that_stay_survive_kills_of_the_whole_group_and_messages_thrown_away(
    settings: Settings, options: tuple[str, ...]
) -> None:
    """Rounds so short that a run stays for several; as each that is thrown away costs a lease,
    fewer are.
    """
    kill_groups_and_throw_messages(
        settings, runs=8, kills=5, options=options, rounds=60, seconds=0.02, share="0.03"
    )


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(240)
@pytest.mark.parametrize("options", [PREFORK, SOLO], ids=" ".join)
def test_on_the_other_pools_runs_survive_kills_of_the_whole_group_and_messages_thrown_away(
    settings: Settings, options: tuple[str, ...]
) -> None:
    kill_groups_and_throw_messages(settings, runs=8, kills=3, options=options)


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_runs_survive_kills_of_all_children_that_play_rounds_while_their_parents_live(
    own_server: CrashableServer,
) -> None:
    """Leases are long: each run goes on because the parents tell of the deaths, or because a lost
    message is sent again.
    """
    settings = Settings(
        redis_url=own_server.url,
        prefix="children",
        flow_modules=("tests.support.example_flows.rings",),
        lease_seconds=120,
    )
    client = Client(settings=settings)
    options = {"LOSE_SHARE": THROWN_SHARE, "PERDURE_LEASE_SECONDS": "120"}
    parents = [
        WorkerProcess(
            settings, *PREFORK, app="tests.support.apps.unreliable_broker", SEED="1", **options
        ).ready()
        for _ in range(2)
    ]
    try:
        ids = [
            client.submit("ledger", "g", {"rounds": ROUNDS, "seconds": ROUND_SECONDS}).id
            for _ in range(8)
        ]
        killed = 0
        for kill in range(4):
            until(
                lambda kill=kill: committed(client, ids) >= 10 * kill and in_flight(client),
                "a round in flight",
                60,
            )
            killed += sum(kill_process_of(client, run_id) for run_id in ids)
        for run_id in ids:
            client.wait(run_id, 60)
        lost = sum(
            event.type == "lost" for run_id in ids for event in client.events(run_id, follow=False)
        )
        print(f"{killed} children killed, {lost} leases forfeited")
        assert killed >= lost > 0
        assert [run_id for run_id in ids if not exact(client, run_id, ROUNDS)] == []
        assert client._store.lists.counts()["due"] == 0
        assert all(parent.process.poll() is None for parent in parents), "no parent may die of it"
    finally:
        for parent in parents:
            parent.close()
        client.close()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_forty_runs_survive_three_kills_of_the_server(own_server: CrashableServer) -> None:
    settings = Settings(
        redis_url=own_server.url,
        prefix="server",
        flow_modules=("tests.support.example_flows.rings",),
    )
    client = Client(settings=settings)
    running = [WorkerProcess(settings).ready() for _ in range(2)]
    try:
        ids = [
            client.submit("ledger", "g", {"rounds": ROUNDS, "seconds": ROUND_SECONDS}).id
            for _ in range(40)
        ]
        for kill in range(3):
            until(
                lambda kill=kill: committed(client, ids) >= 60 * kill and in_flight(client),
                "a round in flight",
                60,
            )
            own_server.kill()
            with pytest.raises(StoreUnavailable):
                client.get(ids[0])
            own_server.start()
        for run_id in ids:
            client.wait(run_id, 60)
        assert [run_id for run_id in ids if not exact(client, run_id, ROUNDS)] == []
        assert client._store.lists.counts()["due"] == 0
        assert all(worker.process.poll() is None for worker in running), "no worker may die of it"
        print("40 runs exact, 3 kills of the server, none due, both workers alive")
    finally:
        for worker in running:
            worker.close()
        client.close()
