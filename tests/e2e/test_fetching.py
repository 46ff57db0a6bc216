"""Workers whose commits prefetch: real processes, real rounds; their requests are counted at the
server.
"""

from __future__ import annotations

from collections import Counter

import pytest

from perdure import Client, Settings
from perdure.worker.broker_urls import broker_url
from tests.support.commit_log import commits, exact
from tests.support.redis_commands import monitored
from tests.support.redis_servers import until
from tests.support.workers import workers

RUNS, ROUNDS = 6, 40


pytestmark = pytest.mark.settings(flow_modules=("tests.support.example_flows.rings",))


def played(client: Client, runs: int = RUNS, rounds: int = ROUNDS) -> Counter[str]:
    """Count the server's commands while some runs are played, each of which must end with the exact
    answer.
    """
    client.wait(client.submit("ledger", "warm up", {"rounds": 4}).id, 60)
    with monitored(client._store) as counts:
        ids = [client.submit("ledger", "count", {"rounds": rounds}).id for _ in range(runs)]
        for run_id in ids:
            client.wait(run_id, 120)
    for run_id in ids:
        assert exact(client, run_id, rounds)
        assert {event.type for event in client.events(run_id, follow=False)}.isdisjoint(
            {"lost", "resent", "failed"}
        )
    print(dict(counts))
    return counts


@pytest.mark.parametrize(
    "pool",
    [
        ("--pool", "threads", "--concurrency", "4"),
        pytest.param(("--pool", "solo"), marks=pytest.mark.slow),
    ],
)
def test_under_load_most_rounds_are_one_command(
    client: Client, settings: Settings, pool: tuple[str, ...]
) -> None:
    with workers(1, settings, *pool):
        counts = played(client)
    assert counts["commit_round"] + counts["commit_and_continue"] == RUNS * ROUNDS
    assert counts["claim_round"] < RUNS * ROUNDS / 2, counts
    assert counts["BRPOP"] < RUNS * ROUNDS / 2 + 60, counts


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("pool", ["threads", "solo"])
def test_a_long_run_stays_with_its_worker_without_end(
    client: Client, settings: Settings, pool: str
) -> None:
    """A thousand rounds, each delivered from the one before: no stack grows with them."""
    with workers(1, settings, "--pool", pool, "--concurrency", "1"):
        counts = played(client, runs=1, rounds=1000)
    assert counts["commit_round"] + counts["commit_and_continue"] == 1000


@pytest.mark.slow
def test_where_it_is_switched_off_each_message_is_asked_for(
    client: Client, settings: Settings
) -> None:
    with workers(1, settings, "--concurrency", "4", PERDURE_FETCH="false"):
        counts = played(client, rounds=10)
    assert (counts["claim_round"], counts["commit_round"]) == (RUNS * 10, RUNS * 10)


@pytest.mark.parametrize("fetch", [True, False], ids=["fetching", "not fetching"])
def test_without_fetch_a_worker_imports_nothing_of_the_fast_path(
    client: Client, settings: Settings, fetch: bool
) -> None:
    loaded = "tests.support.example_flows.loaded_modules"
    with workers(1, settings, PERDURE_FLOW_MODULES=loaded, PERDURE_FETCH=str(fetch).lower()):
        run = client.wait(client.submit("loaded_modules", "look").id, 60)
    imported = run.output["answer"]
    assert imported == [] if not fetch else "perdure.worker.engine.fast.handoff" in imported


@pytest.mark.slow
def test_no_round_is_fetched_for_the_processes_of_a_pool(
    client: Client, settings: Settings
) -> None:
    with workers(1, settings, "--pool", "prefork", "--concurrency", "2"):
        counts = played(client, rounds=10)
    assert (counts["claim_round"], counts["commit_round"]) == (RUNS * 10, RUNS * 10)


@pytest.mark.slow
def test_no_round_is_fetched_beside_queues_of_the_app_s_own(
    client: Client, settings: Settings
) -> None:
    """Fetched rounds would take each place that becomes free, and the app's tasks would wait for
    ever.
    """
    assert settings.redis_url is not None
    place = broker_url(settings.redis_url).replace("perdure+", "redis+")
    with workers(
        1,
        settings,
        "--pool",
        "threads",
        "-c",
        "4",
        app="tests.support.apps.user_app",
        THEIRS_BROKER=place,
    ):
        counts = played(client, rounds=10)
    assert (counts["claim_round"], counts["commit_round"]) == (RUNS * 10, RUNS * 10)


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_an_idle_worker_gets_its_share(client: Client, settings: Settings) -> None:
    """Runs are under way in one worker, with a place free in it; another one comes, and plays some
    of their rounds.
    """
    with workers(1, settings, "--concurrency", "8"):
        ids = [
            client.submit("ledger", "long", {"rounds": 400, "seconds": 0.01}).id for _ in range(6)
        ]
        until(
            lambda: all(client.get(run_id).state.step > 2 for run_id in ids),
            "all runs under way",
            30,
        )
        with workers(1, settings, "--concurrency", "8") as (second,):
            until(
                lambda: second.name in {client.get(run_id).details.get("owner") for run_id in ids},
                "a round of the second worker",
                30,
            )
            for run_id in ids:
                client.wait(run_id, 90)
    assert all(exact(client, run_id, 400) for run_id in ids)


@pytest.mark.slow
def test_a_worker_that_leaves_gives_back_what_it_has_fetched(
    client: Client, settings: Settings
) -> None:
    """A warm shutdown amid prefetched rounds costs none of them a lease."""
    ids = [client.submit("ledger", "long", {"rounds": 300}).id for _ in range(8)]
    with workers(1, settings, "--concurrency", "4") as (first,):
        until(
            lambda: any(client.get(run_id).state.step > 5 for run_id in ids), "rounds under way", 30
        )
        first.terminate()
        until(lambda: first.process.poll() is not None, "the worker has left", 30)
    assert {client.get(run_id).phase for run_id in ids} <= {"queued", "completed"}
    with workers(1, settings, "--concurrency", "4"):
        for run_id in ids:
            client.wait(run_id, 60)
    for run_id in ids:
        assert commits(client, run_id) == list(range(300))
        assert "lost" not in {event.type for event in client.events(run_id, follow=False)}


@pytest.mark.slow
def test_of_a_killed_worker_the_fetched_rounds_are_played_by_another(
    client: Client, settings: Settings
) -> None:
    ids = [client.submit("ledger", "long", {"rounds": 200}).id for _ in range(8)]
    with workers(1, settings, "--concurrency", "4") as (first,):
        until(
            lambda: any(client.get(run_id).state.step > 5 for run_id in ids), "rounds under way", 30
        )
        first.kill()
    lost = [run_id for run_id in ids if client.get(run_id).phase == "leased"]
    assert lost, "nothing was in flight"
    with workers(1, settings, "--concurrency", "4"):
        for run_id in ids:
            client.wait(run_id, 60)
    assert all(exact(client, run_id, 200) for run_id in ids)
    assert all(
        sum(event.type == "lost" for event in client.events(run_id, follow=False)) == 1
        for run_id in lost
    )
