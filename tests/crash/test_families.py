"""Parents and their children while workers are killed as a group and messages are thrown away: each
child starts once, and its answer arrives once.
"""

from __future__ import annotations

import random
import threading

import pytest

from perdure import Client, Run, RunStatus, Settings
from tests.support.example_flows import child_runs  # noqa: F401 -- registers flows
from tests.support.in_process_runtime import sweeping
from tests.support.redis_servers import CrashableServer, until
from tests.support.worker_crashes import PREFORK, SOLO, THREADS, Fleet, in_flight

CHILDREN = 3


@pytest.fixture
def settings(own_server: CrashableServer) -> Settings:
    return Settings(
        redis_url=own_server.url,
        prefix="families",
        flow_modules=("tests.support.example_flows.child_runs",),
        lease_seconds=2.0,
        heartbeat_seconds=0.4,
        sweep_seconds=0.3,
    )


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("options", [THREADS, SOLO, PREFORK], ids=["threads", "solo", "prefork"])
def test_each_child_is_started_once_and_heard_once(
    settings: Settings, options: tuple[str, ...]
) -> None:
    families_under_kills(settings, parents=12, kills=6, options=options)


def families_under_kills(
    settings: Settings, parents: int, kills: int, options: tuple[str, ...] = (), share: str = "0.05"
) -> None:
    """Submit parents of three children of three rounds, and kill all workers again and again.

    Args:
        share: of the messages is thrown away.
    """
    chance = random.Random(parents)
    client = Client(settings=settings)
    with sweeping(client, settings):
        pace = {
            f"PERDURE_{name.upper()}": str(getattr(settings, name))
            for name in ("lease_seconds", "heartbeat_seconds", "sweep_seconds")
        }
        pace["PERDURE_FLOW_MODULES"] = ",".join(settings.flow_modules)
        fleet = Fleet(settings, parents, options, share, **pace)
        children = [{"rounds": 3, "seconds": 0.2}] * CHILDREN
        inputs = {"children": children, "options": {"wait": "settled", "max_concurrency": 2}}
        runs = [client.submit("fan", f"goal {number}", inputs) for number in range(parents)]
        try:
            done = hit = 0
            # On a busy machine, a kill may hit none, and the runs may end before the last kill.
            while live(client) and (done < kills or (hit < kills // 2 and done < 5 * kills)):
                done += 1
                fleet.start()
                until(lambda: in_flight(client) or not live(client), "a round in flight", 60)
                threading.Event().wait(0.6 * chance.random())
                until(lambda: in_flight(client) or not live(client), "the next round", 60)
                fleet.kill()
                hit += in_flight(client)  # whose workers are dead, and whose leases last
            assert hit >= kills // 2, f"only {hit} of {done} kills hit a round"
            fleet.start()
            for run in runs:
                client.wait(run.id, 120)
            until(lambda: not live(client), "the end of all children", 60)
        finally:
            fleet.kill()
        for run in runs:
            check_family(client, run)
        assert client._store.lists.counts()["due"] == 0
        redis, follow_ups = client._store.redis, client._store.keys.follow_ups
        until(lambda: redis.zcard(follow_ups) == 0, "the last follow-ups, left to the sweep", 30)
    client.close()


def live(client: Client) -> int:
    return int(client._store.redis.zcard(client._store.keys.index("live")))


def check_family(client: Client, run: Run) -> None:
    done = client.get(run.id)
    assert done.status is RunStatus.COMPLETED, done.error
    told = [[place, "completed", f"item {place}"] for place in range(CHILDREN)]
    assert done.answer == [told, []]
    events = list(client.events(run.id, follow=False))
    started = [
        (int(each.data["from"]), int(each.data["to"])) for each in events if each.type == "started"
    ]
    places = [place for first, last in started for place in range(first, last)]
    assert places == list(range(CHILDREN)), f"places were started as {started}"
    children = client.children(run.id).runs
    assert [child.state.step for child in children] == [3] * CHILDREN
    for child in children:
        steps = [
            each.step for each in client.events(child.id, follow=False) if each.type == "committed"
        ]
        assert steps == [0, 1, 2], f"child {child.id} committed {steps}"
