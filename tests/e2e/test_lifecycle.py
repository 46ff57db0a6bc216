"""Workers that start, share runs, and shut down: processes. Rules of runs are in tests/run/runs."""

from __future__ import annotations

import pytest

from perdure import Client, InvalidInput, Settings, UnknownFlow
from tests.support.redis_servers import until
from tests.support.workers import WorkerProcess, workers

pytestmark = pytest.mark.settings(flow_modules=("tests.support.example_flows.rings",))


@pytest.mark.slow
def test_a_worker_that_does_not_know_a_flow_gives_the_run_back(
    client: Client, settings: Settings
) -> None:
    with workers(1, settings, PERDURE_FLOW_MODULES=""):
        run = client.submit("ledger", "g", {"rounds": 2})
        until(
            lambda: client.get(run.id).details.get("waiting_for") == "flow",
            "the run to be given back",
        )
    # The first has gone: which of two takes a message would be chance, and each wrong one doubles
    # the wait.
    with workers(1, settings):
        assert client.wait(run.id, 60).answer == [0, 1]
    assert client.get(run.id).details["losses"] == 0


def test_a_warm_shutdown_drains_one_round_and_nothing_waits_for_a_lease(
    client: Client, settings: Settings
) -> None:
    """The round in flight is committed, the next one is for others, and no lease lapses."""
    with workers(1, settings) as [first]:
        run = client.submit("ledger", "g", {"rounds": 2, "seconds": 4.0})
        until(
            lambda: "progress" in (client._store.reads.fields(run.id) or {}),
            "the round to be under way: one merely claimed is given back",
        )
        first.terminate()
        first.process.wait(20)
        after = client.get(run.id)
        assert after.phase == "queued" and after.state.step == 1, after.to_dict()
        assert client.workers() == []
    with workers(1, settings):
        assert client.wait(run.id, 40).answer == [0, 1]
    assert "lost" not in [event.type for event in client.events(run.id, follow=False)]


@pytest.mark.slow
def test_roles_share_a_run_between_controller_workers_and_executor_workers(
    client: Client, settings: Settings
) -> None:
    prefix = settings.prefix
    thinker = WorkerProcess(settings, "-Q", f"{prefix}.controller").ready()
    doer = WorkerProcess(settings, "-Q", f"{prefix}.executor").ready()
    try:
        assert {worker["role"] for worker in client.workers()} == {"controller", "executor"}
        run = client.submit("ledger", "g", {"rounds": 3, "seconds": 0.5})
        owners = set()
        while not (now := client.get(run.id)).status.ended:
            if now.phase == "leased":
                owners.add((now.state.current_node, now.details["owner"]))
        assert owners == {("Controller", thinker.name), ("Executor", doer.name)}
    finally:
        thinker.close()
        doer.close()


@pytest.mark.slow
def test_children_of_prefork_and_the_solo_pool_play_rounds_and_keep_their_leases(
    client: Client, settings: Settings
) -> None:
    for pool in ("prefork", "solo"):
        with workers(
            1,
            settings,
            "--pool",
            pool,
            "--concurrency",
            "2",
            PERDURE_LEASE_SECONDS="1",
            PERDURE_HEARTBEAT_SECONDS="0.25",
        ):
            run = client.submit("ledger", pool, {"rounds": 2, "seconds": 2.0})
            assert client.wait(run.id, 30).answer == [0, 1]
        assert "lost" not in [event.type for event in client.events(run.id, follow=False)]


def test_a_client_without_the_flows_code_submits_by_the_workers_announcement(
    client: Client, settings: Settings
) -> None:
    """The client checks the inputs against the announced schema, the worker fills in defaults."""
    with pytest.raises(UnknownFlow, match="no live worker"):
        client.submit("unseen", "g", {"count": 3})
    with workers(1, settings, PERDURE_FLOW_MODULES="tests.support.example_flows.worker_only"):
        assert client.flows()["unseen"]["inputs"]["required"] == ["count"]
        with pytest.raises(InvalidInput, match="missing: count; unknown: amount"):
            client.submit("unseen", "g", {"amount": 3})
        with pytest.raises(InvalidInput, match="count: expected a whole number, got 'many'"):
            client.submit("unseen", "g", {"count": "many"})
        assert client.wait(client.submit("unseen", "g", {"count": 3}).id, 20).answer == "3 pieces"
