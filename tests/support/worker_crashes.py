"""Two workers that are killed as a group, again and again, while messages are lost."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from functools import partial

from perdure import Client, RunStatus, Settings
from perdure.worker.engine.fast.affinity import STAY_SECONDS
from tests.support.commit_log import allowed, exact, gaps
from tests.support.in_process_runtime import sweeping
from tests.support.redis_servers import until
from tests.support.workers import WorkerProcess

ROUNDS = 6
ROUND_SECONDS = 0.3
THROWN_SHARE = "0.3"
THREADS: tuple[str, ...] = ()
PREFORK = ("--pool", "prefork", "--concurrency", "4")
SOLO = ("--pool", "solo")


class Fleet:
    """Two workers that are killed and started again together; remembers when there were none.

    ``options`` are the workers'.
    """

    def __init__(
        self,
        settings: Settings,
        seed: int,
        options: tuple[str, ...] = (),
        share: str = THROWN_SHARE,
        **environment: str,
    ) -> None:
        self._settings = settings
        self._environment = environment
        self._options = options
        self._seed, self._share = seed, share
        self.outages: list[tuple[float, float]] = []
        self.kills: list[tuple[float, float]] = []
        self.workers: list[WorkerProcess] = []

    def start(self) -> None:
        began = time.time()
        environment = {
            "LOSE_SHARE": self._share,
            "SEED": str(self._seed),
            "PERDURE_FETCH": str(self._settings.fetch),
            **self._environment,
        }
        self.workers = [
            WorkerProcess(
                self._settings,
                *self._options,
                app="tests.support.apps.unreliable_broker",
                **environment,
            )
            for _ in range(2)
        ]
        for worker in self.workers:
            worker.ready()
        self.outages.append((began, time.time()))

    def kill(self) -> None:
        began = time.time()
        for worker in self.workers:
            worker.close()
        self.kills.append((began, time.time()))


def in_flight(client: Client) -> bool:
    return any(run.phase == "leased" for run in client.runs(RunStatus.RUNNING, children=True))


def committed(client: Client, ids: list[str]) -> int:
    return sum(int((fields or {}).get("step", "0")) for fields in client._store.reads.records(ids))


def staying(client: Client, ids: list[str]) -> int:
    """Count the runs that are leased for a round that stayed: its claim and the commit before it
    are one write, which queued nothing.

    Messages that were thrown away, which no worker plays, are left out.
    """
    dropped, found = client._store.redis.hgetall(f"{client._store.keys.prefix}:test:dropped"), 0
    for fields in client._store.reads.records(ids):
        if (
            fields is None
            or fields["phase"] != "leased"
            or f"{fields['id']} {fields['epoch']} {fields['step']}" in dropped
        ):
            continue
        newest = client._store.events.read(fields["id"])[-1][1]
        found += (
            newest["type"] == "committed"
            and fields["queued_at"] < newest["at"] == fields["claimed_at"]
        )
    return found


def kill_groups_and_throw_messages(
    settings: Settings,
    runs: int,
    kills: int,
    options: tuple[str, ...] = (),
    rounds: int = ROUNDS,
    seconds: float = ROUND_SECONDS,
    share: str = THROWN_SHARE,
) -> None:
    """Submit, kill, check that every log is exact, and that each gap in it is within V1's limit for
    the faults that hit it.

    Args:
        settings: of servers that live on, under a prefix of this test alone.
        options: of the workers.
        rounds: of each run, each as long as ``seconds``; of their messages ``share`` is thrown
            away.
    """
    client = Client(settings=settings)
    chance = random.Random(runs)
    with sweeping(
        client, settings
    ):  # it outlives the workers, so that V1 is not excused by silence
        fleet = Fleet(settings, runs, options, share)
        ids = [
            client.submit("ledger", "g", {"rounds": rounds, "seconds": seconds}).id
            for _ in range(runs)
        ]
        fetches = settings.fetch and settings.broker_url is None and "prefork" not in options
        stays = fetches and seconds < STAY_SECONDS
        to_be_hit: Callable[[], int] = (
            partial(staying, client, ids) if stays else partial(in_flight, client)
        )
        try:
            hit = hit_staying = 0
            for kill in range(kills):
                fleet.start()
                # Spread the kills over the work: the k-th when k shares of it are committed, at a
                # random moment of a round.
                done = rounds * runs * kill // (kills + 1)
                until(
                    lambda done=done: committed(client, ids) >= done and to_be_hit(),
                    "a round in flight",
                    120,
                )
                threading.Event().wait(chance.random() * seconds)
                hit += in_flight(client)
                fleet.kill()
                hit_staying += staying(client, ids)
            fleet.start()
            for run_id in ids:
                client.wait(run_id, 120)
        finally:
            fleet.kill()
        assert hit >= kills // 2, "the kills must hit rounds in flight"
        assert (hit_staying > 0) == stays, f"{hit_staying} rounds that stayed were killed"

        thrown, dropped = (
            {
                key: int(count)
                for key, count in client._store.redis.hgetall(
                    f"{settings.prefix}:test:{kind}"
                ).items()
            }
            for kind in ("thrown", "dropped")
        )
        assert sum(thrown.values()) + sum(dropped.values()) >= runs, (
            "messages must have been thrown away"
        )
        assert bool(dropped) == fetches, f"rounds that were fetched and thrown away: {dropped}"
        lost = sum(
            event.type == "lost" for run_id in ids for event in client.events(run_id, follow=False)
        )
        assert lost > 0, "leases must have lapsed"
        assert [run_id for run_id in ids if not exact(client, run_id, rounds)] == []
        assert client._store.lists.counts()["due"] == 0
        gone_all = f"{sum(thrown.values())} messages and {sum(dropped.values())} fetched rounds thrown away"
        faults = f"{kills} kills ({hit} in flight; {hit_staying} rounds that stayed), {gone_all}, {lost} leases lapsed"
        print(f"{runs} runs exact, none due; {faults}")
        late = []
        for run_id in ids:
            for gap in gaps(run_id, client.events(run_id, follow=False)):
                round_of = f"{run_id} 0 {gap.step}"
                gone = thrown.get(round_of, 0) + dropped.get(round_of, 0)
                limit = allowed(gap, seconds, gone, fleet.kills, fleet.outages)
                if (
                    gap.end - gap.start > limit + 1.0
                ):  # two busy cores: a second for processes to get their turn
                    story = [
                        (event.type, event.step, round(event.at.timestamp() - gap.start, 1))
                        for event in client.events(run_id, follow=False)
                    ]
                    late.append((gap, limit, fleet.kills, fleet.outages, story))
        assert not late, "\n".join(map(str, late))
    client.close()
